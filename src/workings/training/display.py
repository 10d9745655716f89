"""What a person sees while a run trains: a live bar on a terminal, a line now and then elsewhere."""

import sys
import time
from collections.abc import Callable
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

from workings.training.loop import Progress

LINES_PER_RUN = 40
"""Lines that a run writes to its log, so that a log of any length is read in a minute."""


class Display:
    """Live progress on standard error, and the same in words to the run's log.

    Args:
        name: the run's name.
        steps: number of the last step.
        start: where the run stands when it begins or resumes.
        log: takes a line for the run's log.
    """

    def __init__(self, name: str, steps: int, start: Progress, log: Callable[[str], None]) -> None:
        self._steps = steps
        self._log = log
        self._every = max(1, steps // LINES_PER_RUN)
        self._began = time.perf_counter()
        self._start = start
        self._console = Console(stderr=True)
        # Disabled where nobody looks: a bar that redraws itself would fill a log file with control characters.
        self._bar = RichProgress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[facts]}"),
            TimeRemainingColumn(), console=self._console, disable=not self._console.is_terminal, refresh_per_second=4)
        self._task = self._bar.add_task(name, total=steps, completed=start.step, facts="")

    def __enter__(self) -> "Display":
        self._bar.start()
        return self

    def __exit__(self, *unused: object) -> None:
        self._bar.stop()

    def show(self, line: dict[str, Any], progress: Progress) -> None:
        """Take note of a finished step."""
        elapsed = time.perf_counter() - self._began
        # Speed is that of this attempt: a run that goes on may be on another machine.
        done = progress.step - self._start.step
        rate = (progress.tokens - self._start.tokens) / elapsed
        left = elapsed / done * (self._steps - progress.step)
        # Of rewards the loss says next to nothing: advantages of a group add up to zero. Nor does it of a teacher from
        # the second update of a rollout on.
        goal = next((f"{name} {line[name]:.3f}" for name in ("reward", "kl_teacher") if name in line),
                    f"loss {line['loss']:.4f}")
        self._bar.update(self._task, completed=progress.step, facts=f"{goal}  {rate:,.0f} tokens/s")
        if progress.step % self._every == 0 or progress.step in (1, self._steps) or "evaluation_loss" in line:
            seen = f"  evaluation loss {line['evaluation_loss']:.4f}" if "evaluation_loss" in line else ""
            self.say(f"step {progress.step}/{self._steps}  {goal}{seen}  "
                     f"lr {line['learning_rate']:.3g}  {rate:,.0f} tokens/s  {left:,.0f} s left")

    def say(self, text: str) -> None:
        """A line for the log; on a terminal it appears above the bar, elsewhere on standard error."""
        self._log(text)
        if self._console.is_terminal:
            self._bar.console.print(text, markup=False, highlight=False)
        else:
            print(text, file=sys.stderr, flush=True)
