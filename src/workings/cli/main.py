"""The command line: `workings` and its commands, each in a module of `workings.cli`."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
import typer.core

from workings.cli.interruption import interrupted
from workings.cli.options import Plain, Verb
from workings.cli.output import COMMAND_GROUPS, say_failure
from workings.cli.usage_errors import USAGE_ERROR, request_error
from workings.cli.waiting import WaitingLine
from workings.engines.hardware_probe import launched
from workings.errors import RequestError, WorkingsError
from workings.record.progress import report_progress_to
from workings.record.storage import is_of_the_disk, storage_error

TYPED = "workings.typed"
"""Key in Typer's context of the words that were typed after the program's name."""
HELP = "Train models that show their workings, and show yours: plan, train, evaluate and prove fine-tuning runs."


@contextmanager
def clear_errors(program: Any, typed: tuple[str, ...]) -> Iterator[None]:
    """Raise usage errors and interruptions as a `WorkingsError` with a message."""
    try:
        yield
    except USAGE_ERROR as wrong:
        # A group without a command prints its help.
        if type(wrong).__name__ == "NoArgsIsHelpError":
            raise
        raise request_error(wrong, program, typed) from None
    except KeyboardInterrupt as stop:
        raise interrupted(stop) from None


class CommandGroup(typer.core.TyperGroup):
    """The commands in the groups of `COMMAND_GROUPS`, with clear errors."""

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the command line, and keep its words for messages."""
        typed = tuple(args)
        with clear_errors(self, typed):
            context = super().make_context(info_name, args, parent, **extra)
        context.meta[TYPED] = typed
        return context

    def invoke(self, ctx: Any) -> Any:
        """Run the command that was asked for."""
        with clear_errors(self, ctx.meta[TYPED]):
            return super().invoke(ctx)

    def list_commands(self, ctx: Any) -> list[str]:
        """Names of the commands in the order of the groups."""
        return [*chain.from_iterable(COMMAND_GROUPS.values())]

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Print a heading for each group, and the whole first sentence of each command."""
        width = max(map(len, self.commands))
        for heading, names in COMMAND_GROUPS.items():
            rows = [(name.ljust(width), str(self.commands[name].get_short_help_str(limit=1000))) for name in names]
            with formatter.section(heading):
                formatter.write_dl(rows)


app = typer.Typer(
    name="workings", cls=CommandGroup, no_args_is_help=True, rich_markup_mode=None, help=HELP,
    pretty_exceptions_enable=False, context_settings={"help_option_names": ["-h", "--help"]})


def _version(is_requested: bool) -> None:
    if is_requested:
        from importlib.metadata import version

        typer.echo(f"workings {version('workings')}")
        raise typer.Exit


@app.callback(help=HELP)
def root_options(
    context: typer.Context,
    version: Annotated[bool, typer.Option(
        "--version", callback=_version, is_eager=True, help="Print the version and exit.")] = False,
) -> None:
    """What holds for every command."""
    # The processes of a launcher would write the same files.
    several = launched()
    if several and context.invoked_subcommand not in ("train", "eval", "export"):
        raise RequestError(f"workings {context.invoked_subcommand} cannot run in several processes ({several})",
                           "only `train`, `eval` and `export` run in several processes",
                           "the same without the launcher")
    context.with_resource(report_progress_to(WaitingLine()))


# The module `workings.cli.NAME` has a function `NAME_command`, or for a group of commands a Typer `NAME_app`.
for _name in chain.from_iterable(COMMAND_GROUPS.values()):
    _module = import_module(f"workings.cli.{_name}")
    if hasattr(_module, f"{_name}_app"):
        app.add_typer(getattr(_module, f"{_name}_app"), name=_name)
    else:
        _class = Plain if _name in ("ui", "serve", "mcp") else Verb  # servers give no answer
        app.command(_name, cls=_class)(getattr(_module, f"{_name}_command"))


def main() -> None:
    """Run a command; print the message of a `WorkingsError`, and exit with its code."""
    try:
        _require_working_folder()
        app()
    except WorkingsError as error:
        _fail(error)
    except PermissionError as denied:
        _fail(RequestError(f"permission is denied for {denied.filename or denied}",
                           "a path that this user may read and write", "another path, or chmod"))
    except OSError as failure:
        if not is_of_the_disk(failure):
            raise
        _fail(storage_error(failure, failure.filename or "a file", "use"))


def _fail(error: WorkingsError) -> NoReturn:
    say_failure(error, sys.argv[1:])
    sys.exit(error.exit_code)


def _require_working_folder() -> None:
    try:
        Path.cwd()
    except FileNotFoundError:
        raise RequestError("the working folder was deleted", "a folder that exists",
                           "cd to another folder and run the command again") from None
