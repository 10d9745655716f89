"""A child process that compiles or traces, so that planning itself loads no framework."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping
from typing import Any

from workings.errors import RequestError, WorkingsError


def ask_child(module: str, ask: Mapping[str, Any], what: str,
              environment: Mapping[str, str] | None = None) -> tuple[dict[str, Any], str]:
    """The answer of a module of this package to JSON on its standard input, and what it wrote to standard error.

    The answer is JSON, the last line of its output. ``what`` names its work in errors; without an ``environment`` it
    has this process's own.

    Raises:
        RequestError: the answer says by ``wrong`` that the request is wrong.
        WorkingsError: the child crashed.
    """
    done = subprocess.run([sys.executable, "-m", module], input=json.dumps(ask), text=True, capture_output=True,
                          env=environment, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise crash(f"{what} crashed (exit code {done.returncode})", done.stderr)
    # Libraries may have printed other lines before.
    answer: dict[str, Any] = json.loads(lines[-1])
    if "wrong" in answer:
        raise RequestError(*answer["wrong"])
    return answer, done.stderr


def answer_parent(answer: Callable[[dict[str, Any]], Mapping[str, Any]]) -> None:
    """In the child: answer the JSON on standard input, or say that the request is wrong."""
    try:
        said = answer(json.load(sys.stdin))
    except RequestError as error:
        said = {"wrong": [error.given, error.expected, error.try_next]}
    sys.stdout.write(json.dumps(said) + "\n")


def crash(what: str, said: str) -> WorkingsError:
    """An error that names the file with the child's last 200 lines: a crash is no verdict about memory."""
    with tempfile.NamedTemporaryFile("w", prefix="workings-child-", suffix=".log", delete=False) as log:
        log.write("\n".join(said.splitlines()[-200:]) + "\n")
    return WorkingsError(f"{what}; this says nothing about memory. Its last lines: {log.name}")
