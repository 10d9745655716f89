"""`python -m workings` is the same as `workings`."""

from workings.cli.main import main

main()
