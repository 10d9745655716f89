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
    """``count`` numbers below ``population``, ascending, such as `[4, 5, 7]`; on every machine the same for a seed."""
    # Ordered by SHA-256, because a library's random numbers may change with its version.
    ranked = sorted(range(population), key=lambda number: bytes_digest(f"{seed}/{purpose}/{number}".encode()))
    return sorted(ranked[:count])


def chosen_steps(states: Sequence[int], step_count: int, steps: int, seed: int) -> tuple[StepRange, ...]:
    """At most ``steps`` of the run's ``step_count`` steps, after one state that the verifier's seed selects.

    ``states``: steps of the stored states that have recorded steps after them, in order; 0: the first weights.
    """
    # One step alone says nothing about the learning rate: skip a state that has only the last step after it.
    starts = [state for state in states if step_count - state > 1] or list(states)
    [number] = choose_numbers(seed, "steps", len(starts), 1)
    return (StepRange(start=starts[number], end=min(step_count, starts[number] + steps)),)


def all_steps(states: Sequence[int], step_count: int, longest: int | None) -> tuple[StepRange, ...]:
    """All steps, from each stored state to the next, where the weights can be compared.

    ``longest``: largest length of a range; None: any. States 0, 7 and 20 of 31 steps give ranges from 0 to 7, 7 to 20
    and 20 to 31, and with ``longest`` 10 from 0 to 7, 7 to 17 and 20 to 30.
    """
    return tuple(StepRange(start=start, end=end if longest is None else min(end, start + longest))
                 for start, end in zip(states, [*states[1:], step_count], strict=True))


def step_coverage(selected: Sequence[StepRange], step_count: int) -> dict[str, Any]:
    """Numbers of `steps`, of steps `replayed` and of `ranges`; first and last of each part `not_replayed`.

    For example, the ranges 0 to 7, 7 to 17 and 20 to 30 of 31 steps leave out `[[18, 20], [31, 31]]`.
    """
    ends, starts = [0, *(each.end for each in selected)], [*(each.start for each in selected), step_count]
    left_out = [[end + 1, start] for end, start in zip(ends, starts, strict=True) if end < start]
    return {"steps": step_count, "replayed": sum(each.end - each.start for each in selected), "ranges": len(selected),
            "not_replayed": left_out}


def sentences(coverage: dict[str, Any]) -> list[str]:
    """What a selection recomputes and what it misses, in words."""
    steps, left_out = coverage["steps"], coverage["steps"]["not_replayed"]
    missed = "missed: nothing, every step was recomputed"
    if left_out:
        shown = ", ".join(f"{first:,} to {last:,}" for first, last in left_out[:MAX_PARTS_SHOWN])
        missed = f"missed: wrong steps within {shown}"
    if len(left_out) > MAX_PARTS_SHOWN:
        missed += f" and {len(left_out) - MAX_PARTS_SHOWN} more parts"
    return [
        f"seed {coverage['seed']}: {steps['replayed']:,} of {steps['steps']:,} steps recomputed", missed,
        *(f"{row['unit']}: {row['asked']:,} of {row['items']:,} items asked again" for row in coverage["answers"])]
