"""Lines written next to the step: in order, none lost, none after one that failed."""

import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ThreadPoolExecutor
from typing import Any

import pytest

from workings.training.background_writers import AsyncMetricsWriter


@pytest.fixture
def thread() -> Iterator[Executor]:
    with ThreadPoolExecutor(1) as one:
        yield one


def test_lines_come_in_order_in_the_other_thread_and_all_of_them(thread: Executor) -> None:
    written: list[tuple[int, str]] = []
    hold = threading.Event()

    def write(line: dict[str, Any]) -> None:
        hold.wait()
        written.append((line["step"], threading.current_thread().name))

    with AsyncMetricsWriter(write, thread) as lines:
        lines.add({"step": 1})
        assert written == []  # not waited for
        hold.set()
        for step in range(2, 5):
            lines.add({"step": step})
        lines.wait()
        assert [number for number, _ in written] == [1, 2, 3, 4]
        lines.add({"step": 5})
    assert [number for number, _ in written] == [1, 2, 3, 4, 5]
    assert threading.current_thread().name not in {name for _, name in written}


@pytest.mark.parametrize("how", ["add", "wait", "end"])
def test_an_error_is_raised_next_and_nothing_is_written_after_it(how: str, thread: Executor) -> None:
    written = []

    def write(line: dict[str, Any]) -> None:
        if line["step"] == 2:
            raise OSError("no space left")
        written.append(line["step"])

    def use() -> None:
        with AsyncMetricsWriter(write, thread) as lines:
            lines.add({"step": 1})
            lines.add({"step": 2})
            if how == "add":
                lines.add({"step": 3})
            elif how == "wait":
                lines.wait()

    with pytest.raises(OSError, match="no space left"):
        use()
    assert written == [1]
