"""A child process that compiles or traces, so that planning itself loads no framework."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from typing import Any

from workings.errors import RequestError, WorkingsError


def ask_child(module: str, ask: Mapping[str, Any], what: str,
              environment: Mapping[str, str] | None = None) -> tuple[dict[str, Any], str]:
    """Run a module of this package on JSON in its standard input; its last line is its answer.

    Args:
        module: its name.
        ask: what it is given.
        what: names its work in errors.
        environment: of the child; None: this process's own.

    Returns:
        The answer, and what the child wrote to standard error.

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


def wrong(error: RequestError) -> dict[str, Any]:
    """The child's answer to a request that is wrong."""
    return {"wrong": [error.given, error.expected, error.try_next]}


def crash(what: str, said: str, kind: type[WorkingsError] = WorkingsError) -> WorkingsError:
    """An error that names the file with the child's last 200 lines: a crash is no verdict about memory."""
    with tempfile.NamedTemporaryFile("w", prefix="workings-child-", suffix=".log", delete=False) as log:
        log.write("\n".join(said.splitlines()[-200:]) + "\n")
    return kind(f"{what}; this says nothing about memory. Its last lines: {log.name}")
