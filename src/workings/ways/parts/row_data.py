"""Training data that exists before the run: tokenized rows of traces or of preference pairs.

Shape suffixes: A accumulation, B rows, S positions.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from functools import partial
from time import perf_counter
from typing import Any, Self

import numpy as np

from workings.config.recipe import Recipe
from workings.data.batches import Batches, Position, even_accumulation
from workings.data.pair_rows import LogProbs, log_prob_lines, read_log_prob_lines, verdict_of
from workings.data.row_fields import NUMBERED
from workings.data.rows import RowSet
from workings.engines.base import AdapterEngine, Engine, LikelihoodEngine, State
from workings.errors import RecordError, RequestError, TrainingFailed
from workings.inputs.resolve import ResolvedRun
from workings.models.batch import Batch, BatchShape
from workings.objectives.base import Objective
from workings.objectives.kto import VERDICT
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.preference import IMITATION
from workings.record import jsonl
from workings.record.canonical import line
from workings.record.layout import REFERENCE_LOG_PROBS, ROWS
from workings.record.number_text import percent
from workings.record.writer import RunWriter
from workings.ways.base import way_of
from workings.ways.parts.experience import Experience, RowExperience, RowSignals
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

    def check(self, engine: Engine) -> None:
        """Raises `RequestError` if the engine lacks something that this data needs."""

    def add_signals(self, batch: Batch, row_ids: Sequence[Sequence[str]], values: Mapping[str, Any]) -> Batch:
        """A batch with what the objective must know of it besides its tokens; here nothing."""
        del row_ids, values
        return batch

    def signals(self, engine: Engine, writer: RunWriter) -> RowSignals[Any] | None:
        """What the objective must know of each row besides its tokens; None if it is nothing."""
        del engine, writer
        return None

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position in the data, with the signals of their rows."""
        # Nothing to close here; the context of rollouts has a process for rewards.
        return nullcontext(RowExperience(self.batches, self.signals(engine, writer)))


@dataclass(frozen=True, kw_only=True)
class PairData(TraceData):
    """Rows of preference pairs."""

    def facts(self) -> dict[str, Any]:
        """The number of pairs."""
        return {"pairs": len(self.rows.rows) // 2}

    def sentence(self) -> str:
        """Number of pairs, then as for traces."""
        return f"{len(self.rows.rows) // 2:,} pairs: {super().sentence()}"

    def add_signals(self, batch: Batch, row_ids: Sequence[Sequence[str]], values: Mapping[str, Any]) -> Batch:
        """A batch divided by its pairs, with what the objective must know of it."""
        return with_pair_signals(batch, row_ids, values, way_of(self.recipe).objective)

    def signals(self, engine: Engine, writer: RunWriter) -> RowSignals[Any]:
        """What the objective must know of a batch, without a reference."""
        del engine, writer
        return RowSignals(values=lambda *_: {}, add=self.add_signals)


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

    def signals(self, engine: Engine, writer: RunWriter) -> RowSignals[Any]:
        """The reference's log probabilities."""
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

        return RowSignals(values=log_probs, add=self.add_signals)

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
    """Checked rows of a recipe's examples. Raises `RequestError` for one that must not be learned from."""
    way = way_of(resolved.recipe)
    return way.build_rows(way.entries(resolved.data), resolved.tokenizer, resolved.template, resolved.recipe.data)


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
