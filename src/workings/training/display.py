"""Progress display of training: a live bar on a terminal; elsewhere a line at intervals."""

import sys
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as RichProgress
from rich.table import Column

from workings.record.memory_use import memory_use
from workings.record.metrics import WINDOW, has_log_line, pace
from workings.record.number_text import percent
from workings.record.progress import ProgressListener, report_progress_to, slow_operation
from workings.repetition import counted
from workings.training.loop import Progress

LOG_WIDTH = 120
"""Characters of a sample's line without a terminal."""
CUT_OFF_SHARE = 0.1
"""A step's line shows the share of cut-off completions if it is larger than this."""


class Display(ProgressListener):
    """Live progress on standard error, and lines for the run's log.

    ``start``: progress before the first step. ``log`` writes a line to the run's log. ``memory``: the contents of
    `plan/plan.json`, and those that `plan/measured.json` has before the first step.
    """

    def __init__(self, name: str, steps: int, start: Progress, log: Callable[[str], None],
                 memory: tuple[Mapping[str, Any], Mapping[str, Any]]) -> None:
        self._steps = steps
        self._log = log
        self._memory = memory
        self._lines: deque[dict[str, Any]] = deque(maxlen=WINDOW)
        self._first = start.step + 1
        self._console = Console(stderr=True)
        self._bar = RichProgress(
            # On a narrow terminal the bar is short, and the numbers are cut at their end.
            TextColumn("{task.description}"), BarColumn(bar_width=min(40, self._console.width // 5)),
            MofNCompleteColumn(), TextColumn("{task.fields[facts]}", markup=False, table_column=Column(
                ratio=1, no_wrap=True, overflow="ellipsis")), expand=True,
            # Without a terminal the bar would fill a log file with control characters.
            console=self._console, disable=not self._console.is_terminal, refresh_per_second=4)
        self._bar_task = self._bar.add_task(name, total=steps, completed=start.step, facts="")
        self._operations: list[str] = []
        self._listening, self._first_step = ExitStack(), ExitStack()

    def __enter__(self) -> "Display":
        self._bar.start()
        # A line about a slow operation would disturb the bar, so the bar shows it.
        if self._console.is_terminal:
            self._listening.enter_context(report_progress_to(self))
        return self

    def __exit__(self, *unused: object) -> None:
        self._first_step.close()
        self._listening.close()
        self._bar.stop()

    def begins(self, what: str) -> None:
        """Shows a task in the bar; it may be a part of another task."""
        self._operations.append(what)
        self._show_facts(f"{what} …")

    def reaches(self, done: int, total: int, unit: str = "") -> None:
        """Shows the progress of the task."""
        self._show_facts(f"{self._operations[-1]} … {done} of {total} {unit}".strip())

    def first_step_begins(self) -> None:
        """Shows from now on that the first step is being taken."""
        self._first_step.enter_context(slow_operation("taking the first step"))

    def ends(self) -> None:
        """Shows the task that the finished one was a part of."""
        self._operations.pop()
        self._show_facts(f"{self._operations[-1]} …" if self._operations else "")

    def _show_facts(self, text: str) -> None:
        self._bar.update(self._bar_task, facts=text)

    def show(self, line: dict[str, Any], progress: Progress) -> None:
        """Shows a finished step."""
        self._first_step.close()
        self._lines.append(line)
        recent_pace = pace(list(self._lines), self._steps, first=self._first)
        speed = "" if recent_pace is None else f"  {recent_pace.text}"
        # With rewards or a teacher, the loss does not show the progress of learning.
        goal = next((f"{name} {line[name]:.3f}" for name in ("reward", "kl_teacher") if name in line),
                    f"loss {line['loss']:.4f}")
        if line.get("truncated", 0) > CUT_OFF_SHARE:
            goal += f"  {percent(line['truncated'], 0)} cut off"
        self._bar.update(self._bar_task, completed=progress.step,
                         facts=f"{goal}{speed}  {memory_use(*self._memory, line).gauge()}")
        if has_log_line(line, self._steps):
            evaluation = f"  evaluation loss {line['evaluation_loss']:.4f}" if "evaluation_loss" in line else ""
            self.say(f"step {progress.step}/{self._steps}  {goal}{evaluation}  lr {line['learning_rate']:.3g}{speed}")

    def say(self, text: str) -> None:
        """Writes a line to the log; on a terminal it appears above the bar, elsewhere on standard error."""
        self._log(text)
        self._print(text)

    def sample(self, text: str) -> None:
        """Writes a completion: the whole text to the log, and one line to the terminal."""
        self._log(text)
        width = self._console.width if self._console.is_terminal else LOG_WIDTH
        short = counted(text)
        self._print(short if len(short) <= width else short[:max(0, width - 1)] + "…")

    def _print(self, text: str) -> None:
        if self._console.is_terminal:
            # Through the bar's console, which moves the bar down. Completions may have brackets, which are no markup.
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
