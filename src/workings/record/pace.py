"""How fast a run goes now and how long the rest takes, from its last steps: the terminal and the page ask here."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

WINDOW = 20
"""Steps that count: after a resume, or beside other work, a run may go at another speed."""
MIN_STEPS = 2
"""Steps behind the first one of an attempt, which compiles, before anything is said."""


@dataclass(frozen=True, kw_only=True)
class Pace:
    """Of a run that takes steps."""

    tokens_per_second: float
    """Unpadded ones, over all devices."""
    seconds_left: float
    """For the steps that are left; evaluations and checkpoints between them are not counted."""


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
