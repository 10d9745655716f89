"""Entry point of the command `workings`, also as `python -m workings`."""

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
    """Run the command line and end the process with its exit code."""
    _use_utf8()
    _open_closed_streams()
    # Before the commands are imported: someone may press Ctrl-C while they are.
    catch_signals()
    try:
        _run_command()
    except SystemExit as end:
        if not isinstance(end.code, int) or end.code == 0:
            raise
        is_one_of_several = launched() or started_apart()
        if end.code != Interrupted.exit_code and not is_one_of_several:
            raise
        # End without the libraries' cleanup. After one of several processes fails, it waits for the others and aborts;
        # after an interruption, threads of a runtime may still compute, and it has caused a segmentation fault.
        with suppress(OSError, ValueError):  # the reader is gone
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(end.code)


def _use_utf8() -> None:
    """Restart in Python's UTF-8 mode where the locale cannot encode every file name; escape what cannot be printed.

    Under `LC_ALL=C` a path such as `rezept ß.yaml` cannot be encoded, and Python chooses its mode at startup.
    """
    if codecs.lookup(sys.getfilesystemencoding()).name != "utf-8":
        os.environ["PYTHONUTF8"] = "1"  # for child processes
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606  the same program
    # Print an escape for a character that the terminal cannot show; Python does so for standard error only.
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            with suppress(OSError):  # standard output is a pipe: Python cannot seek in it
                stream.reconfigure(errors="backslashreplace")


def _open_closed_streams() -> None:
    """Open the null device for a standard stream that the caller closed (`>&-`, a daemon).

    Otherwise the next opened file gets its descriptor, and messages of libraries are written into that file.
    """
    for number, (name, mode) in enumerate([("stdin", "r"), ("stdout", "w"), ("stderr", "w")]):
        if getattr(sys, name) is None:
            lead_nowhere(number)
            setattr(sys, name, os.fdopen(number, mode, closefd=False))


def _run_command() -> None:
    try:
        from workings.cli.main import main

        main()
    except KeyboardInterrupt as stop:  # during the import, or after the command ended
        from workings.cli.output import say_failure

        say_failure(interrupted(stop), sys.argv[1:])
        sys.exit(Interrupted.exit_code)


if __name__ == "__main__":
    run()
