"""What every verb shares: answers on standard output, everything else on standard error, errors without traceback."""

import json
import shutil
import sys
import time
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


class Remaining:
    """Says how much is done and, from the second report on, how much longer the rest takes at this pace.

    Args:
        what: is counted, such as `prompts`.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._first: tuple[int, float] | None = None

    def __call__(self, done: int, total: int) -> None:
        """Say it."""
        now = time.monotonic()
        left = ""
        if self._first is None:
            # Before the first report programs were compiled, and an earlier attempt may have done a part.
            self._first = done, now
        elif done < total:
            before, began = self._first
            left = f", {_duration((now - began) / (done - before) * (total - done))} left"
        say(f"{done} of {total} {self._what}{left}")


def _duration(seconds: float) -> str:
    minutes = round(seconds / 60)
    return f"{seconds:.0f} s" if seconds < 90 else f"{minutes} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def answer(values: Mapping[str, Any], *, as_json: bool, text: str) -> None:
    """The verb's answer: a line of JSON for tools, or a text for people, on standard output."""
    if as_json:
        # NaN is no JSON, and a program that reads the line would fail on it; flushed, because a pipe is read while we
        # run.
        print(json.dumps(values, allow_nan=False, sort_keys=False), flush=True)
    elif text:
        print(text, flush=True)
