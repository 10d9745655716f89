"""What every verb shares: answers on standard output, everything else on standard error, errors without traceback."""

import json
import sys
from collections.abc import Mapping
from typing import Annotated, Any

import typer

JsonFlag = Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line of standard output.")]
"""The `--json` option of every verb."""


def say(text: str) -> None:
    """Progress and explanations, for people: standard error."""
    print(text, file=sys.stderr, flush=True)


def answer(values: Mapping[str, Any], *, as_json: bool, text: str) -> None:
    """The verb's answer: a line of JSON for tools, or a text for people, on standard output."""
    if as_json:
        print(json.dumps(values, allow_nan=False, sort_keys=False), flush=True)
    elif text:
        print(text, flush=True)
