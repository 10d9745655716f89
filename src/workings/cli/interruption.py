"""Signals that end a verb: it cleans up, says in one sentence that it was stopped, and exits with 130."""

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
    """Let the first signal of `SIGNALS` raise `KeyboardInterrupt` with its name, as Ctrl-C does.

    Schedulers and ``kill`` send SIGTERM, which ends a Python process without cleanup; so do SIGHUP, SIGQUIT and
    SIGUSR1. While a run trains, `StopRequest` handles the first one.
    """
    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    for number in handled:
        signal.signal(number, _interrupt)
    sys.unraisablehook = partial(_interrupt_again, handled)


def interrupted(stop: KeyboardInterrupt) -> Interrupted:
    """The error of an interrupted verb that cannot be resumed."""
    return Interrupted(f"stopped by {str(stop) or 'Ctrl-C'}: nothing half-written remains; "
                       "run the same command to start again")


def _interrupt(number: int, frame: FrameType | None) -> None:
    # A further signal would interrupt the cleanup and end in a traceback.
    for signal_number in SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
    leave_closed_terminal(number)
    raise KeyboardInterrupt("Ctrl-C" if number == signal.SIGINT else signal.Signals(number).name)


def _interrupt_again(handled: Sequence[int], ignored: "sys.UnraisableHookArgs") -> None:
    """Raises an interruption again that came while a finalizer or a callback ran, where Python drops it.

    A timer raises it: raised here, it would be dropped as well.
    """
    if isinstance(ignored.exc_value, OSError) and "ignored due to race condition" in str(ignored.exc_value):
        return  # a second signal arrived with the first, which stops the command
    if not isinstance(ignored.exc_value, KeyboardInterrupt):
        sys.__unraisablehook__(ignored)
        return
    for number in handled:
        signal.signal(number, _interrupt)
    name = str(ignored.exc_value)
    number = signal.Signals[name] if name in signal.Signals.__members__ else signal.SIGINT
    # Signal the main thread, which may be asleep; Windows has no such signals.
    again = partial(pthread_kill, main_thread().ident, number) if pthread_kill else partial(interrupt_main, number)
    Timer(0.05, again).start()
