"""Training data for distillation on traces: the rows, and the teacher's most likely tokens at their positions.

Shape suffixes: A accumulation, B rows, S positions, N positions of a row, K tokens of a position.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.top_tokens import (
    StoredTopTokens,
    TeacherTopTokens,
    TopTokenFiles,
    TopTokensOfRow,
    row_positions,
    to_bytes,
    top_tokens_by_row,
)
from workings.engines.base import Engine, State, TeachingEngine
from workings.errors import RecordError, RequestError, TrainingFailed
from workings.inputs.resolve import ResolvedRun
from workings.models.batch import Batch
from workings.objectives.top_tokens import TopTokens
from workings.record import atomic
from workings.record.layout import TEACHER, top_tokens_file
from workings.record.writer import RunWriter
from workings.ways.base import way_of
from workings.ways.parts.row_data import TraceData
from workings.ways.parts.teacher import Teacher, TopTokensFunction


@dataclass(frozen=True, kw_only=True)
class DistillationData(TraceData):
    """Rows of traces and their teacher; its top tokens are computed before the first step and recorded."""

    resolved: ResolvedRun
    teacher: Teacher = field()

    @property
    def objective(self) -> TopTokens:
        """The loss of an update."""
        objective = way_of(self.recipe).objective
        assert isinstance(objective, TopTokens)  # that of the only way with these data
        return objective

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the rows and of the teacher."""
        return super().digests | {"teacher": self.teacher.digest}

    def check(self, engine: Engine) -> None:
        """Raises `RequestError` if the engine does not compute most likely tokens, or the vocabulary is too small."""
        name, count = "algorithm.name: distill_traces", self.objective.top_k
        if not isinstance(engine, TeachingEngine):
            raise RequestError(f"engine {engine.name} does not support {name}",
                               "an engine that computes its most likely tokens", "engine=jax")
        if count > self.resolved.shape.vocab_size:
            raise RequestError(f"algorithm.top_k: {count} exceeds the vocabulary of {self.resolved.shape.vocab_size}",
                               "at most its size", "a smaller algorithm.top_k")

    def write(self, writer: RunWriter) -> None:
        """Writes the row index and the teacher's identity."""
        super().write(writer)
        writer.write_json(TEACHER, self.teacher.facts)

    @cached_property
    def files(self) -> TopTokenFiles:
        """Files of the run with the teacher's top tokens."""
        return TopTokenFiles(batches=self.batches, steps=self.steps, counts=self.rows.learned_positions,
                             count=self.objective.top_k)

    def signal_values(self, engine: Engine, writer: RunWriter, state: State, step: int) -> dict[str, StoredTopTokens]:
        """The teacher's top tokens."""
        del state
        started = perf_counter()
        teacher: TopTokensFunction | None = None
        values: dict[str, StoredTopTokens] = {}
        for number, part in enumerate(self.files.parts):
            path = writer.path(top_tokens_file(number))
            if not path.is_file():
                # Queried again, a teacher on other hardware rounds differently, which would mix two runs.
                if step:
                    raise RecordError(f"part {number} of the teacher's top tokens is missing, and the run has "
                                      f"already taken {step} steps with them")
                teacher = teacher or self.teacher.open_for_tokens(engine, self.resolved, self.objective.top_k)
                rows = {name: row for batch in part for name, row in teacher_top_tokens_by_row(
                    teacher, self.batches, Position(0, batch)).items()}
                atomic.write_bytes(path, to_bytes(rows.values()))
                # After the file: an event of a part that is not there would be believed after a crash.
                writer.event("teacher_asked", part=number, rows=len(rows), seconds=perf_counter() - started)
            # From the file, so that a resumed run and this one train on the same stored bytes.
            values |= self.files.open_rows(path, part)
        return values

    def add_signals(self, batch: Batch, row_ids: Sequence[Sequence[str]], values: TeacherTopTokens) -> Batch:
        """A batch with the top tokens of its rows."""
        return with_top_tokens(batch, row_ids, values, self.objective)


def teacher_top_tokens_by_row(top_tokens: TopTokensFunction, batches: Batches,
                              position: Position) -> dict[str, TopTokensOfRow]:
    """A teacher's most likely tokens for each row of a batch, by row id. Raises `TrainingFailed` for NaN."""
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
