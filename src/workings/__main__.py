"""The command `workings`; `python -m workings` is the same."""

from workings.cli.main import main


def run() -> None:
    """Entry point."""
    main()


if __name__ == "__main__":
    run()
