"""Training data for distillation on traces: the rows, and the teacher's top tokens for them."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from time import perf_counter

from workings.data.top_tokens import StoredTopTokens, TopTokenFiles, TopTokensOfRow, to_bytes
from workings.engines.base import Engine, TeachingEngine
from workings.errors import RequestError
from workings.inputs.resolve import ResolvedRun
from workings.record import atomic
from workings.record.layout import TEACHER, top_tokens_file
from workings.record.writer import RunWriter
from workings.ways.distill import TraceDistill
from workings.ways.parts.distillation_experience import DistillationExperience
from workings.ways.parts.experience import Experience
from workings.ways.parts.row_data import TraceData
from workings.ways.parts.teacher import Teacher


@dataclass(frozen=True, kw_only=True)
class DistillationData(TraceData):
    """Rows of traces and their teacher; its top tokens are computed before the first step and recorded."""

    resolved: ResolvedRun
    algorithm: TraceDistill
    teacher: Teacher = field()

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the rows and of the teacher."""
        return super().digests | {"teacher": self.teacher.digest}

    def check(self, engine: Engine) -> None:
        """Raises `RequestError` if the engine does not compute most likely tokens, or the vocabulary is too small."""
        name, count = f"algorithm.name: {self.algorithm.name}", self.algorithm.top_k
        if not isinstance(engine, TeachingEngine):
            raise RequestError(f"{name} with engine {engine.name}", "an engine that computes its most likely tokens",
                               "engine=jax")
        if count > self.resolved.shape.vocab_size:
            raise RequestError(f"algorithm.top_k: {count} of a vocabulary of {self.resolved.shape.vocab_size}",
                               "at most as many tokens as there are", "a smaller algorithm.top_k")

    def write(self, writer: RunWriter) -> None:
        """Writes the row index and the teacher's identity."""
        super().write(writer)
        writer.write_json(TEACHER, self.teacher.facts)

    @cached_property
    def files(self) -> TopTokenFiles:
        """Files of the run with the teacher's top tokens."""
        return TopTokenFiles(batches=self.batches, steps=self.steps, counts=self.rows.learned_positions,
                             count=self.algorithm.top_k)

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position, with the teacher's top tokens."""
        started = perf_counter()

        def load_part(number: int, part: range) -> dict[str, StoredTopTokens] | None:
            path = writer.path(top_tokens_file(number))
            return self.files.open_rows(path, part) if path.is_file() else None

        def save_part(number: int, rows: Mapping[str, TopTokensOfRow]) -> None:
            atomic.write_bytes(writer.path(top_tokens_file(number)), to_bytes(rows.values()))
            # Behind the file: an event of a part that is not there would be believed after a crash.
            writer.event("teacher_asked", part=number, rows=len(rows), seconds=perf_counter() - started)

        return nullcontext(DistillationExperience(
            self.batches, self.algorithm.objective, parts=self.files.parts, load_part=load_part, save_part=save_part,
            open_teacher=lambda: self.teacher.open_for_tokens(engine, self.resolved, self.algorithm.top_k)))
