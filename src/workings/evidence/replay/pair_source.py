"""Batches of preference pairs of a record, with what the reference said; and wrong ones that must not come out alike.

Shape suffixes: A accumulation, B rows, S positions.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.reference import LogProbs
from workings.engines.base import State
from workings.evidence.replay.steps import StepInputs
from workings.models.batch import Batch
from workings.objectives.policy_gradient import REFERENCE
from workings.training.preference_experience import with_log_probs

BatchChange = Callable[[Batch], Batch]


@dataclass(frozen=True, kw_only=True)
class PairSource:
    """Batches of pairs: they follow from their position, from the record, and from the reference."""

    batches: Batches
    recorded: LogProbs
    """What the reference said."""
    ask: Callable[[State, Position], LogProbs] | None = None
    """Asks the reference again about the rows of a batch; None: what is recorded counts."""
    change: BatchChange = lambda batch: batch
    """For controls: what is learned from in place of the right batch."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step. Raises `RecordError` where the record says nothing of a row."""
        del step
        batch, after = self.batches.at(position)
        said: Mapping[str, float] = self.recorded
        # In a later epoch rows have other neighbours than when they were asked about, which may change last bits.
        if self.ask is not None and position.epoch == 0:
            said = {**said, **self.ask(state, position)}
        learned = with_log_probs(batch, self.batches.row_ids(position), said)
        return StepInputs(batch=self.change(learned), after=after, digest=self.batches.digest(batch))


def with_a_pair_swapped(batch: Batch) -> Batch:
    """A batch in which the rejected row of the first pair is taken for the chosen one."""
    order = np.arange(batch.tokens.shape[1])
    order[:2] = 1, 0
    # Of the first micro batch: the first pair of a batch is never an empty one.
    arrays = {name: np.concatenate([x_ABS[:1, order], x_ABS[1:]]) for name, x_ABS in batch.arrays.items()}
    places = batch.loss_positions
    return replace(
        Batch.of(arrays, batch.divided_by),
        loss_positions=None if places is None else np.concatenate([places[:1, order], places[1:]]),
        distinct_positions=batch.distinct_positions)


def with_another_reference(batch: Batch) -> Batch:
    """A batch in which the reference found the first row half a nat likelier."""
    signal_ABS = batch.signals[REFERENCE].copy()
    signal_ABS[0, 0, batch.loss_mask[0, 0].argmax()] += 0.5
    return replace(batch, signals={REFERENCE: signal_ABS})
