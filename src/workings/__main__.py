"""The command `workings`; `python -m workings` is the same."""

import os
import sys
from contextlib import suppress

from workings.cli.main import main
from workings.errors import Interrupted


def run() -> None:
    """Entry point."""
    try:
        main()
    except SystemExit as end:
        if end.code != Interrupted.exit_code:
            raise
        # Everything was cleaned up and said. A runtime's threads may still be within a program that was interrupted,
        # and taking the process apart under them has ended in a segmentation fault.
        with suppress(OSError, ValueError):  # whoever read it is gone
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(Interrupted.exit_code)


if __name__ == "__main__":
    run()
