"""Batches of traces with a teacher's most likely tokens, computed once before the first step.

Shape suffixes: A accumulation, B rows, S positions, K tokens of a position.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.top_tokens import StoredTopTokens, TeacherTopTokens, TopTokensOfRow, row_positions, top_tokens_by_row
from workings.engines.base import State
from workings.errors import RecordError, TrainingFailed
from workings.models.batch import Batch
from workings.objectives.top_tokens import TopTokens
from workings.ways.parts.experience import PreparedBatch, TraceExperience

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


class DistillationExperience(TraceExperience):
    """Batches of traces: pure functions of their position and of the teacher's most likely tokens."""

    def __init__(self, batches: Batches, objective: TopTokens, *, parts: Sequence[range],
                 open_teacher: Callable[[], TopTokensFunction],
                 load_part: Callable[[int, range], dict[str, StoredTopTokens] | None],
                 save_part: Callable[[int, Mapping[str, TopTokensOfRow]], None]) -> None:
        """Computes nothing yet.

        Args:
            batches: of traces.
            objective: the loss.
            parts: ranges of the first epoch's batches that share a file (`TopTokenFiles`).
            open_teacher: opens the teacher; called if a part is missing, and the result is dropped after `prepare`.
            load_part: loads a part by its number and its batches; None if no attempt has saved it.
            save_part: saves a part in the record.
        """
        super().__init__(batches)
        self._objective, self._parts = objective, parts
        self._open_teacher, self._load_part, self._save_part = open_teacher, load_part, save_part
        self._top_tokens: dict[str, StoredTopTokens] = {}

    def prepare(self, state: State, step: int) -> None:
        """Computes the parts that no earlier attempt has saved.

        Raises:
            RecordError: a part is lost that steps of an earlier attempt were trained with.
        """
        del state
        teacher: TopTokensFunction | None = None
        for number, part in enumerate(self._parts):
            rows = self._load_part(number, part)
            if rows is None:
                # Asked again, a teacher on other hardware rounds otherwise, and the run would not be one run any more.
                if step:
                    raise RecordError(f"part {number} of the teacher's top tokens is missing, and the run has already "
                                      f"taken {step} steps with them")
                teacher = teacher or self._open_teacher()
                self._save_part(number, {
                    name: row for batch in part
                    for name, row in teacher_top_tokens_by_row(teacher, self._batches, Position(0, batch)).items()})
                # Read back from the file, so that a resumed run and this one train on the same stored bytes.
                rows = self._load_part(number, part)
            assert rows is not None  # saved above
            self._top_tokens |= rows

    def next_batch(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch at a position. Raises `RecordError` as `Batches.at` and `with_top_tokens` do."""
        prepared = super().next_batch(state, position, step)
        return replace(prepared, batch=with_top_tokens(prepared.batch, self._batches.row_ids(position),
                                                       self._top_tokens, self._objective))
