"""Batches of preference pairs, and what the reference says of their rows: asked once, before the first step.

Shape suffixes: A accumulation, B rows, S positions.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.reference import LogProbs
from workings.engines.base import LikelihoodEngine, State
from workings.errors import RecordError, TrainingFailed
from workings.models.batch import Batch
from workings.objectives.policy_gradient import REFERENCE
from workings.training.experience import PreparedBatch, TraceExperience


def ask_reference(engine: LikelihoodEngine, state: State, batches: Batches, steps: int) -> dict[str, float]:
    """What a model says of every row that a run of so many steps learns from.

    Args:
        engine: whose state it is.
        state: the reference; it is read, not consumed.
        batches: of pairs. Each row stands in one batch of the first epoch.
        steps: of the run; a run shorter than an epoch asks of its own rows only.

    Raises:
        TrainingFailed: a log probability that is not finite.
    """
    log_probs: dict[str, float] = {}
    for number in range(min(steps, batches.batches_in_epoch(0))):
        log_probs |= ask_about(engine, state, batches, Position(0, number))
    if wrong := [name for name, said in log_probs.items() if not np.isfinite(said)]:
        raise TrainingFailed(f"the reference's log probability of {wrong[0]!r} is {log_probs[wrong[0]]}")
    return log_probs


def ask_about(engine: LikelihoodEngine, state: State, batches: Batches, position: Position) -> dict[str, float]:
    """What a model says of the rows of one batch."""
    said_ABS = engine.log_probs(state, batches.at(position)[0])
    # Added up in float64 and rounded once, so that the sum depends on no order.
    sums = said_ABS.sum(-1, dtype=np.float64).astype(np.float32).reshape(-1).tolist()
    return {name: said for ids, said in zip(batches.row_ids(position), sums, strict=True) for name in ids}


def with_log_probs(batch: Batch, row_ids: Sequence[Sequence[str]], said: LogProbs) -> Batch:
    """A batch of pairs with what its objective needs to know: the reference's words, and how many pairs there are.

    Args:
        batch: without signals.
        row_ids: of each of its A x B sequences the id of its row; none of an empty one.
        said: by these ids.

    Raises:
        RecordError: nothing is known of a row.
    """
    mask = batch.loss_mask.reshape(-1, batch.tokens.shape[-1])
    signal = np.zeros(mask.shape, np.float32)
    for number, ids in enumerate(row_ids):
        for name in ids:
            if name not in said:
                raise RecordError(f"no log probability of the reference for row {name[:80]!r}")
            # Only a row's sum counts. At one supervised position, and zero elsewhere, it is added up without rounding.
            signal[number, mask[number].argmax()] = said[name]
    # Empty sequences, which fill up a last batch, make no pair.
    pairs = sum(len(ids) for ids in row_ids) // 2
    return replace(batch, signals={REFERENCE: signal.reshape(batch.tokens.shape)}, divided_by=float(pairs))


class PairExperience(TraceExperience):
    """Batches of pairs: pure functions of their position and of what the reference has said."""

    def __init__(self, batches: Batches, *, ask: Callable[[State], LogProbs], recorded: Callable[[], LogProbs | None],
                 record: Callable[[LogProbs], None]) -> None:
        """Ask nothing yet.

        Args:
            batches: of pairs.
            ask: asks the reference, given the state before the first step.
            recorded: what it has said to an earlier attempt; None where no attempt has asked it.
            record: keeps what it says.
        """
        super().__init__(batches)
        self._ask, self._recorded, self._record = ask, recorded, record
        self._said: LogProbs = {}

    def start(self, state: State, step: int) -> None:
        """Ask the reference, or read what it has said. Raises `RecordError` where that is lost."""
        said = self._recorded()
        if said is None:
            if step:  # this state is not the reference any more
                raise RecordError(f"nothing is recorded of what the reference said, and {step} steps are taken")
            said = self._ask(state)
            self._record(said)
        self._said = said

    def take(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch at a position. Raises `RecordError` as `Batches.at` and `with_log_probs` do."""
        # Signals are added here and not beside the step before: the first batch is begun before `start` has asked the
        # reference. Its digest is of the rows alone.
        prepared = super().take(state, position, step)
        return replace(prepared, batch=with_log_probs(prepared.batch, self._batches.row_ids(position), self._said))
