"""Output of all commands: answers on standard output, everything else on standard error, errors without traceback."""

import json
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TextIO

import typer

from workings.errors import RequestError, WorkingsError
from workings.hints import typed_path
from workings.record.number_text import small_p

COMMAND_GROUPS: dict[str, tuple[str, ...]] = {
    "Start": ("quickstart", "doctor", "recipes", "data"),
    "Train": ("plan", "train", "launch", "sample", "improve", "reward", "ask"),
    "Measure": ("eval", "compare", "gate"),
    "Prove": ("verify", "pack", "push"),
    "Show": ("runs", "ui", "serve", "mcp", "export"),
}
"""Heading -> commands, in the order of a person's work."""


JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")]
"""The `--json` option of every command."""


def program() -> str:
    """The program's name to type: `workings`, or the path it was called by if that is not on the PATH."""
    # Started as `python -m workings` or from a test, the first argument is a file that no one would type.
    if shutil.which("workings") or not sys.argv[0].endswith("workings"):
        return "workings"
    return typed_path(Path(sys.argv[0]).absolute())


def as_typed(text: str) -> str:
    """A text whose commands (`workings train …`) work as they are, also where the program is not on the PATH."""
    name = program()
    if name == "workings":
        return text
    commands = "|".join(command for commands in COMMAND_GROUPS.values() for command in commands)
    return re.sub(rf"(?<![\w./-])workings (?=(?:{commands})\b)", f"{name} ", text)


Meaning = Literal["good", "bad", "warning"]
COLOURS: dict[Meaning, int] = {"good": 32, "bad": 31, "warning": 33}


def painted(text: str, meaning: Meaning, stream: TextIO) -> str:
    """The text in the colour of its meaning where the stream is a terminal that shows colours, else as it is."""
    # By the convention of no-color.org any value but an empty one switches colours off.
    plain = not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return text if plain else f"\x1b[{COLOURS[meaning]}m{text}\x1b[0m"


def show(text: str) -> None:
    """A part of the answer for humans, at once: standard output."""
    print(text, end="", flush=True)


def say(text: str) -> None:
    """Progress and explanations, for humans: standard error."""
    print(as_typed(text), file=sys.stderr, flush=True)


def say_error(text: str) -> None:
    """An error, its parts told apart by colour on a terminal: what is wrong, and what to type next."""
    labels: dict[str, Meaning] = {"given:": "bad", "expected:": "warning", "try:": "good"}
    for label, meaning in labels.items():
        text = re.sub(rf"^{label}", painted(label, meaning, sys.stderr), text, flags=re.MULTILINE)
    say(text)


def say_failure(error: WorkingsError, typed: Sequence[str]) -> None:
    """An error for humans, and where ``typed`` has ``--json``, as a line of JSON for tools."""
    say_error(str(error))
    if "--json" in typed:
        parts = ({"given": error.given, "expected": error.expected, "try": error.try_next}
                 if isinstance(error, RequestError) else {})
        answer({"error": {"message": str(error), "exit_code": error.exit_code, **parts}}, as_json=True, text="")


def answer(values: Mapping[str, Any], *, as_json: bool, text: str) -> None:
    """The command's answer: a line of JSON for tools, or a text for humans, on standard output."""
    if as_json:
        # NaN is no JSON, and a program that reads the line would fail on it; flushed, because a pipe is read while we
        # run.
        print(json.dumps(values, allow_nan=False, sort_keys=False), flush=True)
    elif text:
        print(small_p(text, " "), flush=True)
