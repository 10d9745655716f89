"""Signals that end a verb: it cleans up, says in one sentence that it was stopped, and exits with 130.

This module imports little, because a process may be stopped while it still imports the commands.
"""

import signal
import sys
from _thread import interrupt_main
from collections.abc import Sequence
from functools import partial
from threading import Timer, main_thread
from types import FrameType

from workings.errors import Interrupted
from workings.training.stopping import SIGNALS, leave_closed_terminal

pthread_kill = getattr(signal, "pthread_kill", None)
REPEAT_SIGNAL_AFTER_SECONDS = 0.05
"""After which an interruption is raised once more that Python dropped."""


def catch_signals() -> None:
    """Let every signal of `SIGNALS` raise `KeyboardInterrupt` with its name, as Ctrl-C does, but once only.

    Schedulers and ``kill`` send SIGTERM, at which a Python process just ends; so it does at SIGHUP, SIGQUIT and
    SIGUSR1. While a run trains, `StopRequest` takes the first one.
    """
    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # as a shell leaves them
    for number in handled:
        signal.signal(number, _interrupt)
    sys.unraisablehook = partial(_interrupt_again, handled)


def interrupted(stop: KeyboardInterrupt) -> Interrupted:
    """The error with which a verb ends that knows no better way to go on than to start again."""
    return Interrupted(f"stopped by {str(stop) or 'Ctrl-C'}: nothing half-written took effect; "
                       "type the same command to start again")


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Further ones would break into the clearing up, and end in a traceback instead of a sentence.
    for signal_number in SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    leave_closed_terminal(number)
    raise KeyboardInterrupt("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)


def _interrupt_again(handled: Sequence[int], ignored: "sys.UnraisableHookArgs") -> None:
    """Repeats an interruption that came while a finalizer or a callback ran, where Python drops it.

    A timer raises it: raised here, it would be dropped as well.
    """
    if isinstance(ignored.exc_value, OSError) and "ignored due to race condition" in str(ignored.exc_value):
        return  # a second signal that came with the first one, which stops the command
    if not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    for number in handled:
        signal.signal(number, _interrupt)
    name = str(ignored.exc_value)
    number = signal.Signals[name] if name in signal.Signals.__members__ else signal.SIGINT
    # To the main thread itself, which may sleep; Windows has no such signals.
    again = partial(pthread_kill, main_thread().ident, number) if pthread_kill else partial(interrupt_main, number)
    Timer(REPEAT_SIGNAL_AFTER_SECONDS, again).start()
