"""Output of all commands: results on standard output, everything else on standard error."""

import json
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import typer

from workings.errors import RequestError, WorkingsError
from workings.hints import typed_path

COMMAND_GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("quickstart", "doctor", "recipes", "data"),
    "Train": ("plan", "train", "launch", "improve", "reward", "ask"),
    "Measure": ("eval", "compare"),
    "Prove": ("verify", "pack", "push"),
    "Show": ("runs", "ui", "serve", "mcp", "export"),
}
"""Heading -> commands, in the order of use."""
AS_JSON: ContextVar[bool] = ContextVar("as_json", default=False)
"""Whether the command was asked for JSON."""


def program() -> str:
    """How to type this program: `workings`, or its path if it is not on the PATH."""
    # Under `python -m workings` or in a test the first argument is not a command to type.
    if shutil.which("workings") or not sys.argv[0].endswith("workings"):
        return "workings"
    return typed_path(Path(sys.argv[0]).absolute())


def as_typed(text: str) -> str:
    """The text with `workings` replaced by the program's path in commands such as `workings train`, if necessary."""
    name = program()
    if name == "workings":
        return text
    commands = "|".join(command for commands in COMMAND_GROUPS.values() for command in commands)
    return re.sub(rf"(?<![\w./-])workings (?=(?:{commands})\b)", f"{name} ", text)


def show(text: str) -> None:
    """Print a part of the answer to standard output at once."""
    print(text, end="", flush=True)


def say(text: str) -> None:
    """Print progress and explanations to standard error."""
    print(as_typed(text), file=sys.stderr, flush=True)


def say_failure(error: WorkingsError, typed: Sequence[str]) -> None:
    """Print an error for humans, and with ``--json`` in ``typed`` also as a line of JSON."""
    say(str(error))
    if "--json" in typed:
        values: dict[str, Any] = {"message": str(error), "exit_code": error.exit_code}
        if isinstance(error, RequestError):
            values |= {"given": error.given, "expected": error.expected, "try": error.try_next}
        print_json({"error": values})


def say_sizes(files: Mapping[str, int], more: str = "") -> None:
    """Print the bytes and the name of each file to standard error, and their sum."""
    for name, size in files.items():
        say(f"  {size:>14,}  {name}")
    say(f"  {sum(files.values()):>14,}  bytes in {len(files)} files{more}")


def print_json(values: Mapping[str, Any]) -> None:
    """Print a line of JSON to standard output."""
    # NaN is not valid JSON. Flushed, because a pipe is read while this command runs.
    print(json.dumps(values, allow_nan=False, sort_keys=False), flush=True)


def answer(values: Mapping[str, Any], text: str, code: int = 0) -> None:
    """Print the result, as a line of JSON or as text; ends the command if its exit ``code`` is not 0."""
    if AS_JSON.get():
        print_json(values)
    elif text:
        print(text, flush=True)
    if code:
        raise typer.Exit(int(code))  # a bool too
