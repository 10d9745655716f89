"""Speed and remaining time of a run from its last steps, and the steps to log.

Used by the terminal, the page and `verify`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import ceil
from typing import Any

from workings.record.number_text import duration

WINDOW = 20
"""Last steps that are averaged: after a resume, or next to other work, a run may have another speed."""
LINES_PER_RUN = 40
"""Number of progress lines in a run's log, so that any log is read in a minute."""
MIN_STEPS = 2
"""Steps after the first one of an attempt, which compiles, from which on there is a pace."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Speed of a run, and the time that is left."""

    tokens_per_second: float
    """Tokens without padding, over all devices."""
    seconds_left: float
    """Time of the remaining steps, without evaluations and checkpoints."""

    @property
    def rate_text(self) -> str:
        """Tokens per second, in words."""
        return f"{self.tokens_per_second:,.0f} tokens/s"

    @property
    def left_text(self) -> str:
        """The time for the steps that are left, in words."""
        return f"{duration(ceil(self.seconds_left))} left"


def pace(lines: Sequence[Mapping[str, Any]], steps: int, *, first: int = 1) -> Pace | None:
    """The pace of the last steps; None until there is one.

    Args:
        lines: of `train/metrics.jsonl`, or the last of them, in order.
        steps: number of the last step.
        first: this attempt's first step, whose time includes compiling and is left out.
    """
    # The first step of an attempt compiles, which takes longer than many steps together.
    recent = [line for line in lines[-WINDOW:] if line["step"] > first]
    seconds = sum(float(line["seconds"]) for line in recent)
    # A pace is a quotient: of one step it would be chance, and of no time it does not exist.
    if len(recent) < MIN_STEPS or not seconds:
        return None
    return Pace(tokens_per_second=sum(int(line["tokens"]) for line in recent) / seconds,
                seconds_left=seconds / len(recent) * (steps - int(recent[-1]["step"])))


def has_log_line(line: Mapping[str, Any], steps: int) -> bool:
    """Whether the run's log has a line of a step.

    Args:
        line: of the step, from `train/metrics.jsonl`.
        steps: number of the last step.
    """
    step = int(line["step"])
    return step % max(1, steps // LINES_PER_RUN) == 0 or step in (1, steps) or "evaluation_loss" in line
