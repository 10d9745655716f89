"""What every verb shares: answers on standard output, everything else on standard error, errors without traceback."""

import json
import shutil
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")]
"""The `--json` option of every verb."""


def program() -> str:
    """How to type this program's name: `workings`, or the path it was called by where that is not on the PATH."""
    # Started as `python -m workings` or from a test, the first argument is a file that nobody would type.
    if shutil.which("workings") or not sys.argv[0].endswith("workings"):
        return "workings"
    called = Path(sys.argv[0])
    return str(called.relative_to(Path.cwd()) if called.is_relative_to(Path.cwd()) else called)


def say(text: str) -> None:
    """Progress and explanations, for people: standard error."""
    print(text, file=sys.stderr, flush=True)


def answer(values: Mapping[str, Any], *, as_json: bool, text: str) -> None:
    """The verb's answer: a line of JSON for tools, or a text for people, on standard output."""
    if as_json:
        # NaN is no JSON, and a program that reads the line would fail on it; flushed, because a pipe is read while we
        # run.
        print(json.dumps(values, allow_nan=False, sort_keys=False), flush=True)
    elif text:
        print(text, flush=True)
