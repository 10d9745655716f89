"""Batches of recorded rows with the signals of their objective, and wrong ones for the controls.

Shape suffixes: A accumulation, B rows, S positions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeVar

import numpy as np

from workings.data.batches import Batches, Position
from workings.engines.base import State
from workings.evidence.replay.steps import StepInputs
from workings.models.batch import Batch
from workings.objectives.policy_gradient import REFERENCE

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RowSource(Generic[T]):
    """Batches of pairs or of traces with a teacher: they follow from the data position and the signals of each row."""

    batches: Batches
    add: Callable[[Batch, Sequence[Sequence[str]], Mapping[str, T]], Batch]
    """Adds the signals of its rows to a batch, given the row ids of its sequences."""
    recorded: Mapping[str, T]
    """Recorded signals by row id: log probabilities of the reference, or top tokens of the teacher."""
    compute: Callable[[State, Position], Mapping[str, T]] | None = None
    """Computes those of the rows of a batch again; None: the recorded ones are used."""
    change: Callable[[Batch], Batch] = lambda batch: batch
    """For controls: makes the batch that is used in place of the right one."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step. Raises `RecordError` for a row without a recorded signal."""
        del step
        batch, after = self.batches.at(position)
        signals = self.recorded
        # In a later epoch rows have other neighbours than when these were computed, which may change last bits.
        if self.compute is not None and position.epoch == 0:
            signals = {**signals, **self.compute(state, position)}
        with_signals = self.add(batch, self.batches.row_ids(position), signals)
        return StepInputs(batch=self.change(with_signals), after=after, digest=self.batches.digest(batch))


def with_a_pair_swapped(batch: Batch) -> Batch:
    """The batch with the two rows of the first pair swapped."""
    order = np.arange(batch.tokens.shape[1])
    order[:2] = 1, 0
    # In the first micro batch: the first pair of a batch is never an empty one.
    arrays = {name: np.concatenate([x_ABS[:1, order], x_ABS[1:]]) for name, x_ABS in batch.arrays.items()}
    positions = batch.loss_positions
    return replace(
        Batch.of(arrays, batch.divided_by),
        loss_positions=None if positions is None else np.concatenate([positions[:1, order], positions[1:]]),
        distinct_positions=batch.distinct_positions)


def with_another_reference(batch: Batch) -> Batch:
    """The batch with the reference log probability of the first row increased by 0.5."""
    signal_ABS = batch.signals[REFERENCE].copy()
    signal_ABS[0, 0, batch.loss_mask[0, 0].argmax()] += 0.5
    return replace(batch, signals={REFERENCE: signal_ABS})


def with_another_top_token(batch: Batch) -> Batch:
    """The batch with half the probability of the teacher's most likely token at the first supervised position."""
    name = next(name for name in sorted(batch.signals) if name.startswith("teacher_log_prob_"))
    signal = batch.signals[name].copy()
    signal.reshape(-1)[batch.loss_mask.reshape(-1).argmax()] -= 0.7
    return replace(batch, signals={**batch.signals, name: signal})
