"""Recomputes recorded steps: correctly, and in *controls* with something wrong on purpose, such as another seed.

A control must give other results than the record: otherwise the tolerance would let everything pass.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from workings.config.training import TrainingConfig
from workings.data.batches import Position
from workings.engines.base import Engine, State, StepResult
from workings.evidence.replay.comparison import MEASURES, Facts, is_outside, line_differences
from workings.evidence.replay.conditions import Tolerance
from workings.models.batch import Batch
from workings.ways.parts.replay_source import BatchSource, StepInputs

CONTROL_RATE_FACTOR = 1.1


@dataclass(frozen=True, kw_only=True)
class InitialState:
    """A state of the training to start from, such as a checkpoint, and its description."""

    make: Callable[[], State]
    words: str


@dataclass(frozen=True, kw_only=True)
class ReplayPlan:
    """Recorded steps, and everything that is needed to recompute them."""

    engine: Engine
    source: BatchSource
    training: TrainingConfig
    start: InitialState
    position: Position
    """Data position of the first step."""
    lines: list[Mapping[str, Any]]
    """Recorded metrics of the steps, in order."""
    rate: float = 1.0
    """Factor of the learning rate. Only controls have another one than 1, or a ``change`` of each batch."""
    change: Callable[[Batch], Batch] = lambda batch: batch


def replay_steps(plan: ReplayPlan) -> Iterator[tuple[Facts, State]]:
    """Recompute the recorded steps; of each its numbers next to the recorded ones, and the state after it."""
    state, position = plan.start.make(), plan.position
    for recorded in plan.lines:
        step = int(recorded["step"])
        inputs = plan.source.take(state, position, step)
        position = inputs.after
        # The recorded number of the step, because a replay from a checkpoint begins in the middle of the schedule.
        learning_rate = plan.training.rate_at(step) * plan.rate
        state, result = plan.engine.step(state, plan.change(inputs.batch), learning_rate)
        yield _line(recorded, inputs, learning_rate, result), state


def run_controls(plan: ReplayPlan, other_order: BatchSource, other_start: InitialState, other_seed_start: InitialState,
                 tolerance: Tolerance, more: Mapping[str, tuple[str, BatchSource]]) -> dict[str, Facts]:
    """Run the controls of a replay, each until it is outside the tolerance or the steps end. Gives results by name.

    ``plan``: the correct replay; ``other_order``: batches of another seed; ``other_start``: another checkpoint;
    ``other_seed_start``: initial state of another seed, or the correct one if a checkpoint decides; ``more``:
    description and batches of further controls, by name.
    """
    controls = {
        "seed": ("the data of another seed", replace(plan, source=other_order, start=other_seed_start)),
        # Shows only in the loss of the next step, so a replay of one step does not tell it apart.
        "learning_rate": (f"the learning rate times {CONTROL_RATE_FACTOR:g}", replace(plan, rate=CONTROL_RATE_FACTOR)),
        "rows": ("one row left out of every step", replace(plan, change=without_a_row)),
        "checkpoint": (other_start.words, replace(plan, start=other_start)),
        **{name: (words, replace(plan, source=source)) for name, (words, source) in more.items()},
    }
    return {name: _control(words, wrong, tolerance) for name, (words, wrong) in controls.items()}


def _control(words: str, plan: ReplayPlan, tolerance: Tolerance) -> Facts:
    control: Facts = {"what": words, "outside": False, "steps": 0, "differences": {}}
    for number, (line, _) in enumerate(replay_steps(plan), start=1):
        differences = line_differences(line)
        outside = is_outside(differences, tolerance.to_json())
        control |= {"steps": number, "differences": differences, "outside": outside}
        if outside:
            break
    return control


def _line(recorded: Mapping[str, Any], inputs: StepInputs, rate: float, result: StepResult) -> Facts:
    numbers = {name: getattr(result, name) for name in MEASURES}
    line: Facts = {
        "step": recorded["step"], "learning_rate": rate, "recorded": {name: recorded[name] for name in MEASURES},
        "replayed": {name: x if math.isfinite(x) else {"absent": "not a finite number"} for name, x in numbers.items()},
        "same_batch": inputs.digest == recorded["batch_digest"]}
    if inputs.completion_counts is not None:
        line["drawn"] = dict(inputs.completion_counts)
    return line


def without_a_row(batch: Batch) -> Batch:
    """A batch in which the first row is neither seen nor learned."""
    length = batch.tokens.shape[-1]
    # [A, B, S] -> [A * B, S].
    segments, mask = batch.segment_ids.reshape(-1, length).copy(), batch.loss_mask.reshape(-1, length).copy()
    # The last batches of an epoch are filled up with empty rows, and leaving one of those out changes nothing.
    first = next(number for number in range(len(segments)) if segments[number].any())
    # The first row of a packed sequence: segments count from 1, and 0 is padding.
    removed = segments[first] == 1
    segments[first][removed], mask[first][removed] = 0, 0.0
    return replace(batch, segment_ids=segments.reshape(batch.tokens.shape), loss_mask=mask.reshape(batch.tokens.shape))
