"""Selection of the steps and answers of a run that are recomputed.

A step can only be recomputed from a stored state: the first weights, or a checkpoint. So *ranges* are selected: the
steps from one stored state to the next, or the first few of them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from workings.record.digest import bytes_digest

MAX_PARTS_SHOWN = 5


@dataclass(frozen=True, kw_only=True)
class StepRange:
    """Steps that are recomputed one after the other, up to ``end``, from the stored state of step ``start``."""

    start: int
    end: int


def choose_numbers(seed: int, purpose: str, population: int, count: int) -> list[int]:
    """``count`` different numbers below ``population``, in order; the same for the same seed on every machine."""
    # Ordered by SHA-256, because a library's random numbers may change with its version.
    ranked = sorted(range(population), key=lambda number: bytes_digest(f"{seed}/{purpose}/{number}".encode()))
    return sorted(ranked[:count])


def chosen_steps(states: Sequence[int], step_count: int, steps: int, seed: int) -> tuple[StepRange, ...]:
    """A few of the run's ``step_count`` steps, after one state that the verifier's seed selects.

    ``states``: steps of the stored states that have recorded steps after them, in order; 0: the first weights.
    """
    # A single step says nothing about the learning rate, so the state before the last step is not selected.
    starts = [state for state in states if step_count - state > 1] or list(states)
    number, = choose_numbers(seed, "steps", len(starts), 1)
    return (StepRange(start=starts[number], end=min(step_count, starts[number] + steps)),)


def all_steps(states: Sequence[int], step_count: int, longest: int | None) -> tuple[StepRange, ...]:
    """All steps, from each stored state to the next, whose weights can be compared there.

    ``longest``: steps after a state that have a tolerance; None: any number.
    """
    return tuple(StepRange(start=start, end=end if longest is None else min(end, start + longest))
                 for start, end in zip(states, [*states[1:], step_count], strict=True))


def step_coverage(selected: Sequence[StepRange], step_count: int) -> dict[str, Any]:
    """For the answer: steps of the run, how many are recomputed, and first and last of each part that is not."""
    parts, next_step = [], 1
    for step_range in selected:
        if step_range.start + 1 > next_step:
            parts.append([next_step, step_range.start])
        next_step = step_range.end + 1
    return {"steps": step_count, "replayed": sum(each.end - each.start for each in selected), "ranges": len(selected),
            "not_replayed": parts + ([[next_step, step_count]] if next_step <= step_count else [])}


def sentences(coverage: dict[str, Any]) -> list[str]:
    """What a selection recomputes and what it misses, in words."""
    steps = coverage["steps"]
    missed = ", ".join(f"{first:,} to {last:,}" for first, last in steps["not_replayed"][:MAX_PARTS_SHOWN])
    more = len(steps["not_replayed"]) - MAX_PARTS_SHOWN
    return [
        f"seed {coverage['seed']}: {steps['replayed']:,} of {steps['steps']:,} steps recomputed",
        f"missed: wrong steps within {missed}{f' and {more} more parts' if more > 0 else ''}" if missed
        else "missed: nothing, every step was recomputed",
        *(f"{row['unit']}: {row['asked']:,} of {row['items']:,} items asked again" for row in coverage["answers"])]
