"""What a run learns from that distills on traces: their rows, and what its teacher finds the most likely there."""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from time import perf_counter

from workings.config.algorithms import TraceDistill
from workings.data.top_tokens import KeptRow, TopTokenFiles, TopTokensOfRow, to_bytes
from workings.engines.base import Engine, TeachingEngine
from workings.errors import RequestError
from workings.record import atomic
from workings.record.layout import TEACHER, top_tokens_file
from workings.record.writer import RunWriter
from workings.runs.resolve import ResolvedRun
from workings.runs.row_data import TraceData
from workings.runs.teacher import Teacher
from workings.training.experience import Experience
from workings.training.taught_experience import AskedForTokens, TaughtExperience


@dataclass(frozen=True, kw_only=True)
class TaughtData(TraceData):
    """Rows of traces and their teacher, which is asked before the first step; what it says is recorded."""

    resolved: ResolvedRun
    algorithm: TraceDistill
    teacher: Teacher

    @property
    def digests(self) -> dict[str, str]:
        """Those of the rows and of the teacher."""
        return super().digests | {"teacher": self.teacher.digest}

    def check(self, engine: Engine) -> None:
        """Raise `RequestError` where this engine does not tell most likely tokens, or has fewer."""
        name, count = f"algorithm.name: {self.algorithm.name}", self.algorithm.top_k
        if not isinstance(engine, TeachingEngine):
            raise RequestError(f"{name} with engine {engine.name}", "an engine that tells its most likely tokens",
                               "engine=jax")
        if count > self.resolved.shape.vocab_size:
            raise RequestError(f"algorithm.top_k: {count} of a vocabulary of {self.resolved.shape.vocab_size}",
                               "at most as many tokens as there are", "a smaller algorithm.top_k")

    def write(self, writer: RunWriter) -> None:
        """Write the row index, and which teacher it is."""
        super().write(writer)
        writer.write_json(TEACHER, self.teacher.facts)

    def opened(self, engine: Engine) -> AskedForTokens:
        """The teacher on an engine of the student's kind; its weights are read when it is asked for the first time."""
        return self.teacher.open_for_tokens(engine, self.resolved, self.algorithm.top_k)

    @cached_property
    def files(self) -> TopTokenFiles:
        """Where the run keeps what the teacher said."""
        return TopTokenFiles(batches=self.batches, steps=self.steps, counts=self.rows.learned_positions,
                             count=self.algorithm.top_k)

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position, once the teacher was asked."""
        started = perf_counter()

        def kept(number: int, part: range) -> dict[str, KeptRow] | None:
            place = writer.path(top_tokens_file(number))
            return self.files.kept(place, part) if place.is_file() else None

        def keep(number: int, said: Mapping[str, TopTokensOfRow]) -> None:
            atomic.write_bytes(writer.path(top_tokens_file(number)), to_bytes(said.values()))
            writer.event("teacher_asked", part=number, rows=len(said), seconds=perf_counter() - started)

        return nullcontext(TaughtExperience(
            self.batches, self.algorithm.objective, opened=lambda: self.opened(engine), kept=kept, keep=keep,
            parts=self.files.parts))


def taught_data(resolved: ResolvedRun, learned: TraceData, teacher: Teacher) -> TaughtData:
    """Rows of a recipe's traces with its teacher."""
    algorithm = resolved.recipe.algorithm
    assert isinstance(algorithm, TraceDistill)  # the caller has looked
    return TaughtData(rows=learned.rows, batches=learned.batches, steps=learned.steps, resolved=resolved,
                      algorithm=algorithm, teacher=teacher)
