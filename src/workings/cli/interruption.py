"""Signals that stop a command: it cleans up, prints one sentence, and exits with code 130."""

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


def catch_signals() -> None:
    """Let the first signal of `SIGNALS` raise `KeyboardInterrupt` with its name; Python does so for Ctrl-C only."""
    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, _interrupt)
    sys.unraisablehook = partial(_interrupt_again, handled)


def interrupted(stop: KeyboardInterrupt) -> Interrupted:
    """The error of an interrupted command that cannot be resumed."""
    return Interrupted(f"stopped by {str(stop) or 'Ctrl-C'}: nothing half-written remains; "
                       "run the same command to start again")


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Ignore further signals, which would interrupt the cleanup.
    for signal_number in SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    leave_closed_terminal(number)
    raise KeyboardInterrupt("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)


def _interrupt_again(handled: Sequence[int], ignored: "sys.UnraisableHookArgs") -> None:
    """Send a signal again that raised `KeyboardInterrupt` in a finalizer or callback, where Python ignores it."""
    if isinstance(ignored.exc_value, OSError) and "ignored due to race condition" in str(ignored.exc_value):
        return  # a second signal arrived with the first, which stops the command
    if not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    for number in handled:
        signal.signal(number, _interrupt)
    name = str(ignored.exc_value)
    number = signal.Signals[name] if name in signal.Signals.__members__ else signal.SIGINT
    if pthread_kill is None:  # Windows
        send = partial(interrupt_main, number)
    else:  # also wakes a main thread that sleeps
        send = partial(pthread_kill, main_thread().ident, number)
    Timer(0.05, send).start()
