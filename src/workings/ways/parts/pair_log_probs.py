"""The reference model's log probabilities of preference pairs, and batches with them.

Shape suffixes: A accumulation, B rows, S positions.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.pair_rows import LogProbs, verdict_of
from workings.engines.base import LikelihoodEngine, State
from workings.errors import RecordError, TrainingFailed
from workings.models.batch import Batch
from workings.objectives.base import Objective
from workings.objectives.kto import VERDICT
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.preference import IMITATION


def reference_log_probs_by_row(engine: LikelihoodEngine, state: State, batches: Batches,
                               steps: int) -> dict[str, float]:
    """The reference's log probability of every row that a run of this length is trained on, by row id.

    Args:
        engine: the engine that owns the state.
        state: the reference; read, not consumed.
        batches: of pairs. Each row is in one batch of the first epoch.
        steps: of the run; a run shorter than an epoch needs its own rows only.

    Raises:
        TrainingFailed: a log probability that is not finite.
    """
    log_probs: dict[str, float] = {}
    # Every row comes once in an epoch, so later epochs need no further ones.
    for number in range(min(steps, batches.batches_in_epoch(0))):
        log_probs |= log_probs_by_row(engine, state, batches, Position(0, number))
    # Before the first step: the loss of every later batch would be NaN.
    if wrong := [name for name, log_prob in log_probs.items() if not np.isfinite(log_prob)]:
        raise TrainingFailed(f"the reference's log probability of {wrong[0]!r} is {log_probs[wrong[0]]}")
    return log_probs


def log_probs_by_row(engine: LikelihoodEngine, state: State, batches: Batches, position: Position) -> dict[str, float]:
    """A model's log probability of each row of one batch, by row id."""
    log_probs_ABS = engine.log_probs(state, batches.at(position)[0])
    # Added up in float64 and rounded once, so that the sum depends on no order.
    sums = log_probs_ABS.sum(-1, dtype=np.float64).astype(np.float32).reshape(-1).tolist()
    return {name: log_prob for ids, log_prob in zip(batches.row_ids(position), sums, strict=True) for name in ids}


def with_pair_signals(batch: Batch, row_ids: Sequence[Sequence[str]], log_probs: LogProbs,
                      objective: Objective) -> Batch:
    """A batch of pairs, divided by their number, with the signals of its objective.

    Args:
        batch: without signals.
        row_ids: for each of its A x B sequences the id of its row; empty for an empty sequence.
        log_probs: of the reference, by row id; empty where the objective has no reference.
        objective: of the run.

    Raises:
        RecordError: a row has no log probability.
    """
    mask = batch.loss_mask.reshape(-1, batch.tokens.shape[-1])
    # Empty sequences, which fill up a last batch, make no pair.
    pairs = sum(len(ids) for ids in row_ids) // 2
    made = {REFERENCE: partial(_reference, mask, row_ids, log_probs), IMITATION: partial(_imitation, mask, pairs),
            VERDICT: partial(_verdicts, mask, row_ids)}
    return replace(batch, divided_by=float(pairs), signals={
        name: made[name]().reshape(batch.tokens.shape) for name in objective.signals})


def _verdicts(mask: np.ndarray, row_ids: Sequence[Sequence[str]]) -> np.ndarray:
    """``[A * B, S]``: the signal `VERDICT`."""
    signal = np.zeros_like(mask)
    for number, ids in enumerate(row_ids):
        for name in ids:
            signal[number, mask[number].argmax()] = verdict_of(name)
    return signal


def _imitation(mask: np.ndarray, pairs: int) -> np.ndarray:
    """``[A * B, S]``: the signal `IMITATION`."""
    weight = np.zeros_like(mask)
    # Every other row is a chosen one.
    weight[::2] = mask[::2] * (pairs / max(mask[::2].sum(dtype=np.float64), 1))
    return weight


def _reference(mask: np.ndarray, row_ids: Sequence[Sequence[str]], log_probs: LogProbs) -> np.ndarray:
    """``[A * B, S]``: the signal `REFERENCE`."""
    signal = np.zeros(mask.shape, np.float32)
    for number, ids in enumerate(row_ids):
        for name in ids:
            if name not in log_probs:
                raise RecordError(f"no log probability of the reference for row {name[:80]!r}")
            # Only a row's sum counts. At one supervised position, and zero elsewhere, it is added up without rounding.
            signal[number, mask[number].argmax()] = log_probs[name]
    return signal
