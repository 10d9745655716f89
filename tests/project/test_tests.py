"""What tests share is next to them, in modules that are no tests; what starts their children outlives each of them."""

import ast
import json
import os
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.fork_server import Server

TESTS = Path(__file__).parents[1]


def imported_modules(source: str) -> set[str]:
    """Modules that a source imports anywhere in it, ``from a import b`` as both `a` and `a.b`."""
    modules = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom):
            modules |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
    return modules


def is_test_module(name: str) -> bool:
    return name.startswith("tests.") and any(part.startswith("test_") for part in name.split("."))


@pytest.mark.parametrize(("source", "imports_a_test"), [
    ("from tests.data.test_check import CASES", True), ("from tests.data import test_check", True),
    ("import tests.data.test_check as check", True), ("def f():\n    from tests.data.test_check import CASES", True),
    ("from tests.data.check_cases import CASES", False), ("from workings.testing import AddingEngine", False)])
def test_an_import_of_a_test_module_is_seen(source, imports_a_test):
    assert any(map(is_test_module, imported_modules(source))) is imports_a_test


def test_nothing_here_imports_from_a_test_module():
    """A failure in the one would be a failure in the other, and a test could not be moved or run by itself."""
    importers = {str(path.relative_to(TESTS)): sorted(names) for path in TESTS.rglob("*.py")
                 if (names := {name for name in imported_modules(path.read_text(encoding="utf-8"))
                               if is_test_module(name)})}
    assert importers == {}


@pytest.mark.parametrize("sent", ["half", "no streams", "all"])
def test_a_command_that_is_ended_while_it_asks_for_a_child_ends_no_server(
        fork_server: Server, child_environment: Callable[..., dict[str, str]], run_forked: Callable[..., Any],
        sent: str) -> None:
    request = json.dumps({"arguments": ["-c", "1"], "cwd": "/", "environment": {}}).encode()
    fork_server.ready(child_environment())
    with socket.socket(socket.AF_UNIX) as connection, Path(os.devnull).open() as stream:
        connection.connect(str(fork_server.folder / "socket"))
        connection.sendall(len(request).to_bytes(8, "big") + request[:None if sent != "half" else 20])
        if sent == "all":
            socket.send_fds(connection, [b"f"], 3 * [stream.fileno()])
    assert run_forked("-c", "print(1)").stdout == "1\n"
