"""Training data that exists before the run: tokenized rows of traces or of preference pairs."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Self

from workings.config.recipe import Recipe
from workings.data.batches import Batches, even_accumulation
from workings.data.pair_rows import LogProbs, log_prob_lines, read_log_prob_lines
from workings.data.row_cache import MIN_CACHED_ROWS, cache_key, cached_rows
from workings.data.row_fields import NUMBERED
from workings.data.rows import RowSet
from workings.engines.base import AdapterEngine, Engine, LikelihoodEngine, State
from workings.errors import RecordError, RequestError
from workings.hardware.machine import cache_directory
from workings.inputs.resolve import ResolvedRun
from workings.models.batch import Batch, BatchShape
from workings.record import jsonl
from workings.record.canonical import line
from workings.record.layout import REFERENCE_LOG_PROBS, ROWS
from workings.record.number_text import percent
from workings.record.writer import RunWriter
from workings.ways.base import way_of
from workings.ways.parts.experience import Experience, RowExperience, RowSignals
from workings.ways.parts.pair_log_probs import reference_log_probs_by_row, with_pair_signals
from workings.ways.parts.teacher import Teacher

FEW_ROWS = 100
"""Rows below which the log gives advice: a model learns so few by heart."""
MANY_EMPTY = 1 / 3
"""Share of empty rows in an epoch's updates from which the log says so."""


@dataclass(frozen=True, kw_only=True)
class TraceData:
    """Rows of traces, in batches whose order is known before the first step."""

    recipe: Recipe
    rows: RowSet
    batches: Batches
    steps: int
    """Steps of the run: the recipe's number, or counted from its epochs."""
    teacher: Teacher | None = None

    @classmethod
    def of(cls, recipe: Recipe, rows: RowSet, devices: int, **own: Any) -> Self:
        """Rows in a recipe's batches.

        Args:
            recipe: of the run.
            rows: made from its examples.
            devices: number of devices over which rows are split.
            own: further fields.
        """
        batches = Batches(way_of(recipe).grouped(rows), seed=recipe.seed,
                          rows_per_micro_batch=recipe.batch.micro_batch * devices,
                          accumulation=recipe.batch.accumulation,
                          data_config=recipe.data)
        steps = recipe.training.steps or batches.steps_in(recipe.training.epochs)
        return cls(recipe=recipe, rows=rows, batches=batches, steps=steps, **own)

    @property
    def digests(self) -> dict[str, str]:
        """Digest of the rows."""
        return {"rows": self.rows.digest}

    def typical_shape(self) -> tuple[BatchShape, float]:
        """As `Batches.typical_shape`."""
        return self.batches.typical_shape()

    def shapes(self) -> list[BatchShape]:
        """All shapes (A, B, S), longest first."""
        return self.batches.shapes()

    def blank(self, shape: BatchShape) -> Batch:
        """A batch without contents."""
        return self.batches.blank(shape)

    def write(self, writer: RunWriter) -> None:
        """Write the row index."""
        # Cleaned when the rows were made: their digest has to be that of the bytes on the disk.
        writer.write_cleaned(ROWS, self.rows.index_bytes)

    def facts(self) -> dict[str, Any]:
        """None: the row index says all."""
        return {}

    def sentence(self) -> str:
        """Rows, dropped ones, supervised tokens and, where a row learns several, turns of the assistant; padding."""
        turns, texts = self.rows.learned_turns, self.rows.whole
        return (f"{len(self.rows.rows):,} rows, {len(self.rows.dropped):,} dropped, "
                f"{self.rows.supervised_tokens:,} supervised tokens per epoch"
                f"{f' in {turns:,} turns of the assistant' if turns > len(self.rows.rows) else ''}, "
                f"{f'every token of {texts:,} rows learned, ' if texts else ''}"
                f"{percent(self.batches.padding_share())} padding in epoch 0")

    def remarks(self) -> list[str]:
        """Sentences about few rows, rows without an id, and updates with many empty rows."""
        return [*self._about_rows(), *self._about_empty_rows()]

    def _about_rows(self) -> Iterator[str]:
        ids = self.rows.ids
        if any(row_id.startswith(NUMBERED) for row_id in ids):
            yield "no id      rows without an `id` are numbered by their lines"
        if len(ids) < FEW_ROWS:
            held_out = ("held-out texts (`evaluation.traces`)" if self.rows.whole else
                        "held-out questions (`workings data import --hold-out`)")
            yield (f"few rows   {len(ids)} rows: the model can learn them by heart. A few hundred and more are usual; "
                   f"with few, 1 to 3 epochs and {held_out} show whether it learns more than these")

    def _about_empty_rows(self) -> list[str]:
        empty, total = self.batches.empty_sequences()
        if empty < MANY_EMPTY * total:
            return []
        accumulation, micro_batch, _ = self.batches.shapes()[0]
        fewer = even_accumulation(total - empty, micro_batch, accumulation)
        try_next = f"batch.accumulation={fewer}" if fewer < accumulation else "a smaller batch.micro_batch"
        return [f"empty      {empty:,} of {total:,} rows of an epoch's updates are empty; try: {try_next}"]

    def question_digests(self) -> set[str]:
        """Digests of all questions of the rows, those of earlier turns included."""
        return {digest for row in self.rows.rows for digest in (row.prompt_digest, *row.earlier_prompt_digests)}

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position in the data."""
        del engine, writer
        # Nothing to close here; the context of rollouts has a process for rewards.
        return nullcontext(RowExperience(self.batches))


@dataclass(frozen=True, kw_only=True)
class PairData(TraceData):
    """Rows of preference pairs."""

    def facts(self) -> dict[str, Any]:
        """The number of pairs."""
        return {"pairs": len(self.rows.rows) // 2}

    def sentence(self) -> str:
        """Number of pairs, then as for traces."""
        return f"{len(self.rows.rows) // 2:,} pairs: {super().sentence()}"

    def add_signals(self, batch: Batch, row_ids: Sequence[Sequence[str]], values: LogProbs) -> Batch:
        """A batch divided by its pairs, with what the objective must know of it."""
        return with_pair_signals(batch, row_ids, values, way_of(self.recipe).objective)

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position."""
        del engine, writer
        return nullcontext(RowExperience(self.batches, RowSignals(values=lambda *_: {}, add=self.add_signals)))


@dataclass(frozen=True, kw_only=True)
class ReferencedPairData(PairData):
    """Rows of pairs; the reference's log probabilities are computed before the first step and recorded."""

    def check(self, engine: Engine) -> None:
        """Raises `RequestError` if the engine computes no log probabilities, or cannot switch adapters off."""
        name = f"algorithm.name: {self.recipe.algorithm.name}"
        if not isinstance(engine, LikelihoodEngine):
            raise RequestError(f"engine {engine.name} does not support {name}",
                               "an engine that computes log probabilities",
                               "engine=jax")
        if not self.recipe.method.trains_all_weights and not isinstance(engine, AdapterEngine):
            raise RequestError(f"engine {engine.name} does not support {name} with adapters",
                               "an engine that switches them off",
                               "method.name=full, or engine=jax")

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position, with the reference's log probabilities."""
        path = writer.path(REFERENCE_LOG_PROBS)

        def log_probs(state: State, step: int) -> LogProbs:
            if path.is_file():
                return read_log_prob_lines(jsonl.read(path)[0])
            # After a step `state` is another model than the reference.
            if step:
                raise RecordError("the reference's log probabilities are missing, and the run has already taken "
                                  f"{step} steps with them")
            started = perf_counter()
            computed = self.reference_log_probs(engine, state)
            writer.event("reference", rows=len(computed), seconds=perf_counter() - started)
            writer.write_cleaned(REFERENCE_LOG_PROBS, b"".join(map(line, log_prob_lines(computed))))
            return computed

        return nullcontext(RowExperience(self.batches, RowSignals(values=log_probs, add=self.add_signals)))

    def reference_log_probs(self, engine: Engine, state: State) -> LogProbs:
        """The reference's log probability of each row of the run; ``state`` is the one before the first step."""
        reference = self.reference(engine, state)
        assert isinstance(engine, LikelihoodEngine)  # `check` has refused others
        return reference_log_probs_by_row(engine, reference, self.batches, self.steps)

    def reference(self, engine: Engine, state: State) -> State:
        """The model before training: ``state`` itself, or the weights below its adapters."""
        self.check(engine)
        if self.recipe.method.trains_all_weights:
            return state
        assert isinstance(engine, AdapterEngine)  # `check` has refused others
        return engine.without_adapters(state)


def read_rows(resolved: ResolvedRun) -> RowSet:
    """Checked rows of a recipe's examples; those of a large data set are cached between runs.

    Raises:
        RequestError: an example that must not be learned from.
    """
    data, way = resolved.data, way_of(resolved.recipe)
    entries, settings = way.entries(data), (resolved.tokenizer, resolved.template, resolved.recipe.data)

    def make() -> RowSet:
        return way.build_rows(entries, *settings)

    # The cache's key is the digest of the whole data set.
    if len(entries) < MIN_CACHED_ROWS or not data.is_full:
        return make()
    return cached_rows(cache_directory() / "rows", cache_key(data.digests["traces"], *settings), make)
