"""A teacher's most likely tokens at the positions of rows, and batches with them.

Shape suffixes: A accumulation, B rows, S positions, K tokens of a position.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.top_tokens import TeacherTopTokens, TopTokensOfRow, row_positions, top_tokens_by_row
from workings.errors import RecordError, TrainingFailed
from workings.models.batch import Batch
from workings.objectives.top_tokens import TopTokens

TopTokensFunction = Callable[[Batch], tuple[np.ndarray, np.ndarray]]
"""A teacher's most likely tokens at a batch's positions: ``[A, B, S, K]`` tokens and their log probabilities, as
`TeachingEngine.most_likely` returns them."""


def teacher_top_tokens_by_row(top_tokens: TopTokensFunction, batches: Batches,
                              position: Position) -> dict[str, TopTokensOfRow]:
    """A teacher's most likely tokens for each row of one batch, by row id.

    Raises:
        TrainingFailed: a log probability that is not finite.
    """
    batch, _ = batches.at(position)
    tokens, log_probs = top_tokens(batch)
    # Asked here, once a part: in the loss it would show as a step that is not finite, with the student to blame.
    if not np.isfinite(log_probs).all():
        raise TrainingFailed(f"a log probability of the teacher is not finite, in batch {position.batch + 1}")
    return top_tokens_by_row(batch, batches.row_ids(position), tokens, log_probs)


def with_top_tokens(batch: Batch, row_ids: Sequence[Sequence[str]], top_tokens: TeacherTopTokens,
                    objective: TopTokens) -> Batch:
    """A batch with the inputs of its objective. Raises `RecordError` if a row has no fitting top tokens."""
    size = (int(np.prod(batch.tokens.shape[:2])), batch.tokens.shape[-1])
    signals = {name: np.zeros(size, np.float32) for name in objective.signals}
    for name, number, positions in row_positions(batch, row_ids):
        row = top_tokens[name].load() if name in top_tokens else None
        if row is None or len(row.tokens_NK) != len(positions):
            raise RecordError(f"the stored top tokens of the teacher do not cover row {name[:80]!r}")
        for column, (token, log_prob) in enumerate(zip(objective.target_signals, objective.log_prob_signals,
                                                       strict=True)):
            signals[token][number, positions] = row.tokens_NK[:, column]
            signals[log_prob][number, positions] = row.log_probs_NK[:, column]
    return replace(batch, signals={name: x.reshape(batch.tokens.shape) for name, x in signals.items()})
