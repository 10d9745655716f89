"""Runs a module in a child process with JSON as question and answer, so that planning itself loads no framework."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from workings.errors import RequestError, WorkingsError


def ask_child(module: str, ask: Mapping[str, Any], what: str,
              environment: Mapping[str, str] | None = None) -> tuple[dict[str, Any], str]:
    """The answer of a module to JSON on its standard input, and the text that it wrote to standard error.

    The answer is JSON in the last line of its standard output. ``what`` names the work in errors; ``environment``:
    None for this process's. Raises `RequestError` if the child did (`answer_parent`), `WorkingsError` after a crash.
    """
    done = subprocess.run([sys.executable, "-m", module], input=json.dumps(ask), text=True, capture_output=True,
                          env=environment, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise crash(f"{what} crashed (exit code {done.returncode})", done.stderr)
    # Libraries may have printed other lines.
    answer: dict[str, Any] = json.loads(lines[-1])
    if "wrong" in answer:
        raise RequestError(*answer["wrong"])
    return answer, done.stderr


def answer_parent(answer: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """In the child: answer the question on standard input; a `RequestError` of ``answer`` is raised in the parent."""
    try:
        result = answer(json.load(sys.stdin))
    except RequestError as error:
        result = {"wrong": [error.given, error.expected, error.try_next]}
    sys.stdout.write(json.dumps(result) + "\n")


def crash(what: str, output: str) -> WorkingsError:
    """An error that names a log file with the last 200 lines of the child's output."""
    with tempfile.NamedTemporaryFile("w", prefix="workings-child-", suffix=".log", delete=False) as log:
        log.write("\n".join(output.splitlines()[-200:]) + "\n")
    return WorkingsError(f"{what}; this says nothing about memory. Its last lines: {log.name}")
