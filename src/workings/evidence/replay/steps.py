"""Taking recorded steps again, and taking wrong ones that must not come out the same."""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol

from workings.data.batches import Batches, Position
from workings.engines.base import Engine, State, StepResult
from workings.evidence.replay.comparison import Facts, is_outside, line_differences
from workings.evidence.replay.tolerance import Tolerance
from workings.models.batch import Batch
from workings.training.schedule import Schedule

OTHER_RATE = 1.1
"""The control takes its steps with the learning rate times this."""


@dataclass(frozen=True, kw_only=True)
class InitialState:
    """A state to start from."""

    make: Callable[[], State]
    words: str


@dataclass(frozen=True, kw_only=True)
class StepInputs:
    """What a step that is taken again is given."""

    batch: Batch
    after: Position
    digest: str
    drawn: Mapping[str, int] | None = None
    """Of a step before which completions were drawn again: how many, and how many came out as recorded."""


class Source(Protocol):
    """Where the batches of recorded steps come from."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step; ``state`` is read, not consumed."""
        ...


@dataclass(frozen=True)
class TraceSource:
    """Batches of traces: they follow from their position."""

    batches: Batches

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step."""
        del state, step
        batch, after = self.batches.at(position)
        return StepInputs(batch=batch, after=after, digest=self.batches.digest(batch))


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """Steps that were recorded, and everything that is needed to take them again."""

    engine: Engine
    source: Source
    schedule: Schedule
    start: InitialState
    position: Position
    """Where the first of these steps finds its batch."""
    lines: list[Mapping[str, Any]]
    """Recorded metrics of the steps to take, in order."""


@dataclass(frozen=True, kw_only=True)
class ReplayedStep:
    """One step beside the recorded one."""

    line: Facts
    state: State


def replay(plan: ReplayPlan) -> Iterator[ReplayedStep]:
    """Take the recorded steps again, one after the other."""
    yield from _take(plan, plan.source, plan.start, 1.0, lambda batch: batch)


def controls(plan: ReplayPlan, other_order: Source, other_start: InitialState, other_seed_start: InitialState,
             tolerance: Tolerance, more: Mapping[str, tuple[str, Source]]) -> dict[str, Facts]:
    """Wrong replays, each taken until it lies outside the tolerance or the steps end.

    Args:
        plan: the right replay.
        other_order: what another seed gives.
        other_start: another checkpoint.
        other_seed_start: the state that another seed would have begun with; the right one where a checkpoint decides.
        tolerance: what counts as the same.
        more: further controls by name, in words, that differ in where their batches come from.
    """
    tries: dict[str, tuple[str, Source, InitialState, float, Callable[[Batch], Batch]]] = {
        "seed": ("the data of another seed", other_order, other_seed_start, 1.0, _same),
        # Shows in the loss of the step after it only, so a replay of one step leaves this control inside.
        "learning_rate": (f"the learning rate times {OTHER_RATE:g}", plan.source, plan.start, OTHER_RATE, _same),
        # The narrowest of the four where batches are large.
        "rows": ("one row left out of every step", plan.source, plan.start, 1.0, without_a_row),
        "checkpoint": (other_start.words, plan.source, other_start, 1.0, _same),
        **{name: (words, source, plan.start, 1.0, _same) for name, (words, source) in more.items()},
    }
    return {name: _control(words, _take(plan, source, start, rate, change), tolerance)
            for name, (words, source, start, rate, change) in tries.items()}


def _control(words: str, steps: Iterator[ReplayedStep], tolerance: Tolerance) -> Facts:
    limits = tolerance.to_json()
    control: Facts = {"what": words, "outside": False, "steps": 0, "differences": {}}
    for step in steps:
        differences = line_differences(step.line)
        control |= {"steps": control["steps"] + 1, "differences": differences,
                    "outside": is_outside(differences, limits)}
        # One step outside is enough, and each costs as much as a real one.
        if control["outside"]:
            break
    return control


def _take(plan: ReplayPlan, source: Source, start: InitialState, rate: float,
          change: Callable[[Batch], Batch]) -> Iterator[ReplayedStep]:
    state, position = start.make(), plan.position
    for recorded in plan.lines:
        step = int(recorded["step"])
        taken = source.take(state, position, step)
        position = taken.after
        # By the recorded number of the step: a replay from a checkpoint is in the middle of the schedule.
        learning_rate = plan.schedule.at(step) * rate
        # The step consumes the old state; nothing may use it afterwards.
        state, result = plan.engine.step(state, change(taken.batch), learning_rate)
        yield ReplayedStep(line=_line(recorded, taken, learning_rate, result), state=state)


def _line(recorded: Mapping[str, Any], taken: StepInputs, rate: float, result: StepResult) -> Facts:
    line: Facts = {
        "step": recorded["step"], "learning_rate": rate,
        "recorded": {"loss": recorded["loss"], "grad_norm": recorded["grad_norm"]},
        "replayed": {"loss": _finite(result.loss), "grad_norm": _finite(result.grad_norm)},
        "same_batch": taken.digest == recorded["batch_digest"]}
    return line if taken.drawn is None else line | {"drawn": dict(taken.drawn)}


def _finite(value: float) -> Any:
    return value if -float("inf") < value < float("inf") else {"absent": "not a finite number"}


def _same(batch: Batch) -> Batch:
    return batch


def without_a_row(batch: Batch) -> Batch:
    """A batch in which the first row is neither seen nor learned."""
    length = batch.tokens.shape[-1]
    # [A, B, S] -> [A * B, S].
    segments, mask = batch.segment_ids.reshape(-1, length).copy(), batch.loss_mask.reshape(-1, length).copy()
    # The last batches of an epoch are filled up with empty rows, and leaving one of those out changes nothing.
    first = next(number for number in range(len(segments)) if segments[number].any())
    # Of a packed sequence its first row: segments count from 1, and 0 is padding.
    gone = segments[first] == 1
    segments[first][gone], mask[first][gone] = 0, 0.0
    return replace(batch, segment_ids=segments.reshape(batch.tokens.shape), loss_mask=mask.reshape(batch.tokens.shape))
