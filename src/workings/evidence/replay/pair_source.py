"""Batches of recorded preference pairs with their reference log probabilities, and wrong ones for the controls.

Shape suffixes: A accumulation, B rows, S positions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.reference_log_probs import LogProbs
from workings.engines.base import State
from workings.evidence.replay.steps import StepInputs
from workings.models.batch import Batch
from workings.objectives.policy_gradient import REFERENCE
from workings.training.preference_experience import with_log_probs

BatchChange = Callable[[Batch], Batch]


@dataclass(frozen=True, kw_only=True)
class PairSource:
    """Batches of pairs, which follow from the data position and the reference log probabilities."""

    batches: Batches
    recorded: LogProbs
    """Recorded log probabilities of the reference."""
    compute: Callable[[State, Position], LogProbs] | None = None
    """Computes those of the rows of a batch again; None: the recorded ones are used."""
    change: BatchChange = lambda batch: batch
    """For controls: makes the batch that is used in place of the right one."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step. Raises `RecordError` for a row without a recorded log probability."""
        del step
        batch, after = self.batches.at(position)
        log_probs: Mapping[str, float] = self.recorded
        # In a later epoch rows have other neighbours than when these were computed, which may change last bits.
        if self.compute is not None and position.epoch == 0:
            log_probs = {**log_probs, **self.compute(state, position)}
        with_reference = with_log_probs(batch, self.batches.row_ids(position), log_probs)
        return StepInputs(batch=self.change(with_reference), after=after, digest=self.batches.digest(batch))


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
