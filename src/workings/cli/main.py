"""`workings`: the command line. A command imports what it needs when it is called."""

import signal
import sys
from _thread import interrupt_main
from collections.abc import Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from threading import Timer, main_thread
from types import FrameType
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from workings.cli.output import COMMAND_GROUPS, say_failure
from workings.cli.usage_errors import in_given_expected_try
from workings.cli.waiting import WaitingLine
from workings.engines.hardware_probe import launched
from workings.errors import Interrupted, RequestError, WorkingsError
from workings.record.progress import report_progress_to
from workings.record.storage import is_of_the_disk, storage_error
from workings.training.stopping import SIGNALS

pthread_kill = getattr(signal, "pthread_kill", None)
REPEAT_SIGNAL_AFTER_SECONDS = 0.05
"""After which an interruption is raised once more that Python dropped."""
IN_MODULE = {"baseline": "gate", "fetch": "launch", "key": "sign", "select": "sample"}
"""Commands that stand in the module of a related command."""
TYPED = "workings.typed"
"""Key of the typed words in the context."""


class CommandGroup(typer.core.TyperGroup):
    """The commands; a signal that ends one becomes an error with a message instead of Typer's bare "Aborted!"."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Read the words in front of the command; all are kept for messages."""
        typed = tuple(args)
        with in_given_expected_try(self, typed):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[TYPED] = typed
        return context

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        try:
            with in_given_expected_try(self, ctx.meta[TYPED]):
                return super().invoke(ctx)
        # Caught here, because click would turn it into an abort before it reaches `main`.
        except KeyboardInterrupt as stop:
            raise Interrupted(_stopped(stop)) from None

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands in the order of the groups."""
        return [command for commands in COMMAND_GROUPS.values() for command in commands]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """A heading for each group, and of each command the whole sentence."""
        width = max(map(len, self.commands))
        for heading, commands in COMMAND_GROUPS.items():
            with formatter.section(heading):
                # As wide as the widest of all groups, so that the sentences stand below each other.
                formatter.write_dl([(command.ljust(width), self._sentence(command)) for command in commands])

    def _sentence(self, name: str) -> str:
        return str(self.commands[name].get_short_help_str(limit=1000))


app = typer.Typer(
    name="workings", cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None,
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]},
    help="Train models that show their workings, and show yours: plan, train, evaluate and prove fine-tuning runs.")


def _version(is_requested: bool) -> None:
    if is_requested:
        # Read only now: the metadata of a distribution take a search of the whole path.
        from importlib.metadata import version

        typer.echo(f"workings {version('workings')}")
        raise typer.Exit


@app.callback()
def root_options(
    context: typer.Context,
    version: Annotated[bool, typer.Option(
        "--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """Train models that show their workings, and show yours: plan, train, evaluate and prove fine-tuning runs."""
    # A launcher starts the same command many times at once, and all of them would write one folder.
    several = launched()
    if several and context.invoked_subcommand != "train":
        raise RequestError(f"workings {context.invoked_subcommand} in several processes ({several})",
                           "train: the one command that several processes run together",
                           "the same without the launcher")
    context.with_resource(report_progress_to(WaitingLine()))


def _add_commands() -> None:
    """Adds the commands: each is a function `NAME_command`, or several as `NAME_app`, in the module of its name."""
    for name in (command for commands in COMMAND_GROUPS.values() for command in commands):
        module = import_module(f"workings.cli.{IN_MODULE.get(name, name)}")
        if hasattr(module, f"{name}_app"):
            app.add_typer(getattr(module, f"{name}_app"), name=name)
        else:
            app.command(name)(getattr(module, f"{name}_command"))


_add_commands()


def main() -> None:
    """Entry point: run a command; errors raised on purpose become a message and an exit code.

    Schedulers and ``kill`` send SIGTERM, at which a Python process just ends; so it does at SIGHUP, SIGQUIT and
    SIGUSR1. Here all of them do what Ctrl-C does: the command cleans up, says that it was stopped and exits with 130.
    While a run trains, `StopRequest` takes the first one.
    """
    # Before the command is known: a scheduler may end the process while it still imports.
    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]  # as a shell leaves them
    for number in handled:
        signal.signal(number, _interrupt)
    sys.unraisablehook = partial(_interrupt_again, handled)
    try:
        _check_working_folder()
        app()
    except WorkingsError as error:
        _fail(error)
    except PermissionError as denied:  # of a file that somebody named; where a command knows more, it says so itself
        _fail(RequestError(f"{denied.filename or denied}, which this user may not read or write",
                           "a place with permission", "another path, or chmod"))
    except OSError as error:
        if not is_of_the_disk(error):
            raise
        _fail(storage_error(error, error.filename or "a file", "use"))
    except KeyboardInterrupt as stop:  # while the command was looked for, or had ended
        _fail(Interrupted(_stopped(stop)))


def _fail(error: WorkingsError) -> NoReturn:
    say_failure(error, sys.argv[1:])
    sys.exit(error.exit_code)


def _check_working_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise RequestError("the working folder, which somebody deleted", "a folder that exists",
                           "cd to one, and the command again") from None


def _interrupt(number: int, frame: FrameType | None) -> None:
    # Further ones would break into the clearing up, and end in a traceback instead of a sentence.
    for signal_number in SIGNALS:
        signal.signal(signal_number, signal.SIG_IGN)
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


def _stopped(stop: KeyboardInterrupt) -> str:
    return (f"stopped by {str(stop) or 'Ctrl-C'}: nothing half-written took effect; "
            "type the same command to start again")


if __name__ == "__main__":
    main()
