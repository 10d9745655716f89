"""Taking recorded steps again, and taking wrong ones that must not come out the same."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workings.data.batches import Batches, Position
from workings.engines.base import Engine, State, StepResult
from workings.evidence.replay.judge import Facts, is_outside, line_differences
from workings.evidence.replay.tolerance import Tolerance
from workings.models.batch import Batch
from workings.training.schedule import Schedule

OTHER_RATE = 1.1
"""The control takes its steps with the learning rate times this."""


@dataclass(frozen=True, kw_only=True)
class Beginning:
    """A state to start from."""

    make: Callable[[], State]
    words: str


@dataclass(frozen=True, kw_only=True)
class Course:
    """Steps that were recorded, and everything that is needed to take them again."""

    engine: Engine
    batches: Batches
    schedule: Schedule
    start: Beginning
    position: Position
    """Where the first of these steps finds its batch."""
    lines: list[Mapping[str, Any]]
    """Recorded metrics of the steps to take, in order."""


@dataclass(frozen=True, kw_only=True)
class Taken:
    """One step beside the recorded one."""

    line: Facts
    state: State


def replay(course: Course) -> Iterator[Taken]:
    """Take the recorded steps again, one after the other."""
    yield from _take(course, course.batches, course.start, 1.0, lambda batch: batch)


def controls(course: Course, other_order: Batches, other_start: Beginning, other_seed_start: Beginning,
             tolerance: Tolerance) -> dict[str, Facts]:
    """Four wrong courses, each taken until it lies outside the tolerance or the steps end.

    Args:
        course: the right one.
        other_order: the same rows in the order of another seed.
        other_start: another checkpoint.
        other_seed_start: the state that another seed would have begun with; the right one where a checkpoint decides.
        tolerance: what counts as the same.
    """
    tries: dict[str, tuple[str, Batches, Beginning, float, Callable[[Batch], Batch]]] = {
        "seed": ("the rows in the order of another seed", other_order, other_seed_start, 1.0, _same),
        "learning_rate": (f"the learning rate times {OTHER_RATE:g}", course.batches, course.start, OTHER_RATE, _same),
        "rows": ("one row left out of every step", course.batches, course.start, 1.0, without_a_row),
        "checkpoint": (other_start.words, course.batches, other_start, 1.0, _same),
    }
    return {name: _control(words, _take(course, batches, start, rate, change), tolerance)
            for name, (words, batches, start, rate, change) in tries.items()}


def _control(words: str, taken: Iterator[Taken], tolerance: Tolerance) -> Facts:
    limits = tolerance.to_json()
    found: Facts = {"what": words, "outside": False, "steps": 0, "differences": {}}
    for step in taken:
        differences = line_differences(step.line)
        found |= {"steps": found["steps"] + 1, "differences": differences, "outside": is_outside(differences, limits)}
        if found["outside"]:
            break
    return found


def _take(course: Course, batches: Batches, start: Beginning, rate: float,
          change: Callable[[Batch], Batch]) -> Iterator[Taken]:
    state, position = start.make(), course.position
    for recorded in course.lines:
        batch, position = batches.at(position)
        batch = change(batch)
        learning_rate = course.schedule.at(int(recorded["step"])) * rate
        state, result = course.engine.step(state, batch, learning_rate)
        yield Taken(line=_line(recorded, batches, batch, learning_rate, result), state=state)


def _line(recorded: Mapping[str, Any], batches: Batches, batch: Batch, rate: float, result: StepResult) -> Facts:
    return {"step": recorded["step"], "learning_rate": rate,
            "recorded": {"loss": recorded["loss"], "grad_norm": recorded["grad_norm"]},
            "replayed": {"loss": _finite(result.loss), "grad_norm": _finite(result.grad_norm)},
            "same_batch": batches.digest(batch) == recorded["batch_digest"]}


def _finite(value: float) -> Any:
    return value if -float("inf") < value < float("inf") else {"absent": "not a finite number"}


def _same(batch: Batch) -> Batch:
    return batch


def without_a_row(batch: Batch) -> Batch:
    """A batch in which the first row is neither seen nor learned."""
    length = batch.tokens.shape[-1]
    segments, mask = batch.segment_ids.reshape(-1, length).copy(), batch.loss_mask.reshape(-1, length).copy()
    first = next(number for number in range(len(segments)) if segments[number].any())
    gone = segments[first] == 1
    segments[first][gone], mask[first][gone] = 0, 0.0
    return replace(batch, segment_ids=segments.reshape(batch.tokens.shape), loss_mask=mask.reshape(batch.tokens.shape))
