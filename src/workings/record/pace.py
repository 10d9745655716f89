"""Speed of a run and time that is left, from its last steps; used by the terminal and the page."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WINDOW = 20
"""Last steps that are averaged: after a resume, or beside other work, a run may have another speed."""
MIN_STEPS = 2
"""Steps after the first one of an attempt, which compiles, from which on there is a pace."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Speed of a run, and the time that is left."""

    tokens_per_second: float
    """Tokens without padding, over all devices."""
    seconds_left: float
    """Time of the remaining steps, without evaluations and checkpoints."""


def pace(lines: Sequence[Mapping[str, Any]], steps: int, *, first: int = 1) -> Pace | None:
    """The pace of the last steps; None until there is one.

    Args:
        lines: of `train/metrics.jsonl`, or the last of them, in order.
        steps: number of the last step.
        first: number of this attempt's first step, whose time holds compiling and is left out.
    """
    recent = [line for line in lines[-WINDOW:] if line["step"] > first]
    seconds = sum(float(line["seconds"]) for line in recent)
    if len(recent) < MIN_STEPS or not seconds:
        return None
    return Pace(tokens_per_second=sum(int(line["tokens"]) for line in recent) / seconds,
                seconds_left=seconds / len(recent) * (steps - int(recent[-1]["step"])))
