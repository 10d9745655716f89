"""No operation is silent for longer than two seconds: a line names it and its time."""

import queue
import time

import pytest

from workings.cli import waiting as line
from workings.record.progress import report_progress_to, slow_operation


@pytest.fixture
def said(monkeypatch):
    """The printed lines, at once instead of after two seconds."""
    lines = queue.Queue()
    monkeypatch.setattr(line, "FIRST_SECONDS", 0.0)
    monkeypatch.setattr(line, "say", lines.put)
    return lines


def test_what_goes_on_inside_of_something_is_spoken_of_and_then_the_whole_again(said):
    with report_progress_to(line.WaitingLine()):
        with slow_operation("compiling the step"):
            assert said.get().startswith("compiling the step … ")
            with slow_operation("reading"):
                assert said.get().startswith("reading … ")
            assert said.get().startswith("compiling the step … ")
        with slow_operation("answering"):
            assert said.get().startswith("answering … ")
    with slow_operation("unheard"):
        pass
    assert said.empty()


def test_an_error_ends_the_waiting(said):
    def divide():
        with slow_operation("dividing"):
            said.get()
            raise ZeroDivisionError

    with report_progress_to(line.WaitingLine()):
        with pytest.raises(ZeroDivisionError):
            divide()
        with slow_operation("reading"):
            assert said.get().startswith("reading … ")


def test_many_short_parts_are_not_silent_together(said, monkeypatch):
    monkeypatch.setattr(line, "FIRST_SECONDS", 0.2)
    with report_progress_to(line.WaitingLine()), slow_operation("the whole"):
        for _ in range(200):
            with slow_operation("a short part"):
                time.sleep(0.02)
            if not said.empty():
                break
    assert not said.empty()


@pytest.mark.parametrize(("seconds", "done", "expected"), [
    (192.0, (0, 0, ""), "compiling … 3:12 min"),
    (10.0, (0, 600, ""), "compiling … 10 s"),
    (10.0, (600, 600, ""), "compiling … 10 s, 600 of 600"),
    (41.0, (2, 4, "micro-batches"), "compiling … 41 s, 2 of 4 micro-batches, about 41 s left"),
])
def test_a_line_says_how_long_and_how_much_longer(seconds, done, expected):
    assert line.waiting_text("compiling", seconds, done) == expected
