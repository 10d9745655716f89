"""Lines about the machine next to a run: written while it trains, never in its way."""

import threading
from typing import Any

import pytest

from workings.errors import StorageError
from workings.training.background_writers import MachineLog


def test_a_line_has_the_step_and_none_comes_after_the_end() -> None:
    lines: list[dict[str, Any]] = []
    looked = threading.Event()

    def write(line: dict[str, Any]) -> None:
        lines.append(line)
        looked.set()

    with MachineLog(write, lambda: 7, pytest.fail, pause=0.001, look=lambda: {"cpu_percent": 5.0}):
        looked.wait()
    count = len(lines)
    assert lines[0] == {"step": 7, "cpu_percent": 5.0}
    assert not any(thread.name == "machine log" for thread in threading.enumerate())
    assert len(lines) == count
    with MachineLog(write, lambda: 7, pytest.fail):  # over before the first look
        pass
    assert len(lines) == count


@pytest.mark.parametrize("error", [StorageError("the disk is full"), OSError("no driver"), ValueError("no number")])
def test_what_goes_wrong_is_said_once(error: Exception) -> None:
    said: list[str] = []
    told = threading.Event()

    def look() -> dict[str, float]:
        raise error

    def say(text: str) -> None:
        said.append(text)
        told.set()

    with MachineLog(pytest.fail, lambda: 1, say, pause=0.001, look=look):
        told.wait()
    assert said == [f"the load of the machine is not recorded any more: {error}"]
