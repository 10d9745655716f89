"""The command `workings`; `python -m workings` is the same."""

import codecs
import io
import os
import sys
from contextlib import suppress

from workings.cli.interruption import catch_signals, interrupted
from workings.engines.hardware_probe import launched, started_apart
from workings.errors import Interrupted
from workings.training.stopping import lead_nowhere


def run() -> None:
    """Entry point."""
    _use_utf8()
    _open_closed_streams()
    # Before the commands are imported, which a person does not always wait for.
    catch_signals()
    try:
        _run_command()
    except SystemExit as end:
        # After a failure in one of several processes the libraries' own clearing up waits for the others and aborts.
        alone = not (launched() or started_apart())
        if not isinstance(end.code, int) or end.code == 0 or (alone and end.code != Interrupted.exit_code):
            raise
        # Everything was cleaned up and said. A runtime's threads may still be within a program that was interrupted,
        # and taking the process apart under them has ended in a segmentation fault.
        with suppress(OSError, ValueError):  # the reader is gone
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(end.code)


def _use_utf8() -> None:
    """Start again in Python's UTF-8 mode where the locale cannot name every file, and let no character fail.

    Under `LC_ALL=C` a path such as `rezept ß.yaml` is no valid text. Python decides about its mode when it starts.
    """
    if codecs.lookup(sys.getfilesystemencoding()).name != "utf-8":
        os.environ["PYTHONUTF8"] = "1"  # for the processes that this one starts
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606  the same program
    # A terminal that cannot show a character gets its escape; Python itself does so for standard error only.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # a file in whose place another program has put a pipe: Python cannot find its end
                stream.reconfigure(errors="backslashreplace")


def _open_closed_streams() -> None:
    """Let a standard stream that the caller has closed (`>&-`, a daemon) lead nowhere.

    The next file that is opened would have its number, and what libraries say would be written into that file.
    """
    for number, (name, mode) in enumerate([("stdin", "r"), ("stdout", "w"), ("stderr", "w")]):
        if getattr(sys, name) is None:
            lead_nowhere(number)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _run_command() -> None:
    try:
        from workings.cli.main import main

        main()
    except KeyboardInterrupt as stop:  # while it was imported or looked for, or had ended
        from workings.cli.output import say_failure

        say_failure(interrupted(stop), sys.argv[1:])
        sys.exit(Interrupted.exit_code)


if __name__ == "__main__":
    run()
