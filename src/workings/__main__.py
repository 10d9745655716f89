"""The command `workings`; `python -m workings` is the same."""

import sys

from workings.hardware.huge_pages import restart_with_huge_pages


def run() -> None:
    """Entry point. What comes before the restart is kept small; the verbs are imported after it."""
    restart_with_huge_pages(sys.argv[1:])
    from workings.cli.main import main

    main()


if __name__ == "__main__":
    run()
