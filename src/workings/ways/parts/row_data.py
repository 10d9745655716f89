"""Training data that exist before the run: rows of traces or pairs, with the signals that an objective needs of them.

For example, DPO's objective needs the reference's log probability of each row. `signal_values` computes it before the
first step, and `add_signals` adds it to each batch as an array next to the tokens.

Shape suffixes: A accumulation, B rows, S positions, N positions of a row, K tokens of a position.
"""

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from time import perf_counter
from typing import Any

import numpy as np

from workings.config.recipe import Recipe
from workings.data import pair_rows
from workings.data.batches import Batches, Position, even_accumulation
from workings.data.rows import RowSet
from workings.data.top_tokens import (
    TeacherTopTokens,
    TopTokenFiles,
    TopTokensOfRow,
    row_positions,
    to_bytes,
    top_tokens_by_row,
)
from workings.engines.base import AdapterEngine, Engine, LikelihoodEngine, State, TeachingEngine
from workings.errors import RecordError, RequestError, TrainingFailed
from workings.inputs.resolve import ResolvedRun
from workings.models.batch import Batch
from workings.objectives.base import Objective
from workings.objectives.kto import VERDICT
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.preference import IMITATION
from workings.objectives.top_tokens import TopTokens
from workings.record import atomic, jsonl
from workings.record.canonical import line
from workings.record.layout import REFERENCE_LOG_PROBS, ROWS, TEACHER, top_tokens_file
from workings.record.number_text import percent
from workings.record.writer import RunWriter
from workings.ways.parts.experience import Experience, RowExperience
from workings.ways.parts.teacher import Teacher, TopTokensFunction

FEW_ROWS = 100
"""Rows below which a model can learn them by heart."""


@dataclass(frozen=True, kw_only=True)
class TraceData:
    """Rows of traces, in batches whose order is known before the first step; they need no signals."""

    recipe: Recipe
    rows: RowSet
    devices: int
    """Number of devices over which rows are split."""
    teacher: Teacher | None = None

    @cached_property
    def batches(self) -> Batches:
        """The rows in the recipe's batches."""
        recipe = self.recipe
        return Batches(pair_rows.grouped(recipe.algorithm.examples, self.rows), seed=recipe.seed,
                       rows_per_micro_batch=recipe.batch.micro_batch * self.devices, data_config=recipe.data,
                       accumulation=recipe.batch.accumulation)

    @cached_property
    def steps(self) -> int:
        """Steps of the run: the recipe's number, or counted from its epochs."""
        return self.recipe.training.steps or self.batches.steps_in(self.recipe.training.epochs)

    @property
    def digests(self) -> dict[str, str]:
        """Digest of the rows."""
        return {"rows": self.rows.digest}

    def longest(self) -> Batch:
        """The longest batch, without contents."""
        return self.batches.blank(self.batches.shapes()[0])

    def write(self, writer: RunWriter) -> None:
        """Writes the row index."""
        # The index was cleaned when the rows were made, because their digest is over these bytes.
        writer.write_cleaned(ROWS, self.rows.index_bytes)

    def sentence(self) -> str:
        """Numbers of rows and supervised tokens, the share of padding, and remarks."""
        count, turns, texts = len(self.rows.rows), self.rows.learned_turns, self.rows.whole
        in_turns = f" in {turns:,} turns of the assistant" if turns > count else ""
        whole_texts = f", every token of {texts:,} rows learned" if texts else ""
        return (f"{count:,} rows, {len(self.rows.dropped):,} dropped, "
                f"{self.rows.supervised_tokens:,} supervised tokens per epoch{in_turns}{whole_texts}, "
                f"{percent(self.batches.padding_share())} padding in epoch 0{self._few_rows()}{self._empty_rows()}")

    def _few_rows(self) -> str:
        """A remark if the model can learn the rows by heart."""
        count = len(self.rows.rows)
        if count >= FEW_ROWS:
            return ""
        held_out = "texts (`evaluation.traces`)" if self.rows.whole else "questions (`workings data import --hold-out`)"
        return (f"; {count} rows can be learned by heart: 1 to 3 epochs and held-out {held_out} show whether the model "
                "learns more than these")

    def _empty_rows(self) -> str:
        """A remark if at least a third of the rows of an epoch's updates are empty."""
        empty, total = self.batches.empty_sequences()
        if 3 * empty < total:
            return ""
        accumulation, micro_batch, _ = self.batches.shapes()[0]
        fewer = even_accumulation(total - empty, micro_batch, accumulation)
        try_next = f"batch.accumulation={fewer}" if fewer < accumulation else "a smaller batch.micro_batch"
        return f"; {empty:,} of {total:,} rows of an epoch's updates are empty; try: {try_next}"

    def question_digests(self) -> set[str]:
        """Digests of all questions of the rows, those of earlier turns included."""
        return {digest for row in self.rows.rows for digest in (row.prompt_digest, *row.earlier_prompt_digests)}

    def check(self, engine: Engine) -> None:
        """Raises `RequestError` if the engine lacks something that this data needs."""

    def signal_values(self, engine: Engine, writer: RunWriter, state: State, step: int) -> Mapping[str, Any]:
        """By row id, what an objective must know besides the tokens, such as log probabilities; for traces nothing."""
        return {}

    def add_signals(self, batch: Batch, row_ids: Sequence[Sequence[str]], values: Mapping[str, Any]) -> Batch:
        """A batch with the values of its rows."""
        return batch

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position in the data, with the signals of their rows."""
        return nullcontext(RowExperience(self.batches, partial(self.signal_values, engine, writer), self.add_signals))


@dataclass(frozen=True, kw_only=True)
class PairData(TraceData):
    """Rows of preference pairs."""

    @property
    def pairs(self) -> int:
        """Number of pairs."""
        return len(self.rows.rows) // 2

    def sentence(self) -> str:
        """Number of pairs, then as for traces."""
        return f"{self.pairs:,} pairs: {super().sentence()}"

    def add_signals(self, batch: Batch, row_ids: Sequence[Sequence[str]], values: Mapping[str, Any]) -> Batch:
        """The batch with the signals of a preference objective, and the number of its pairs as its divisor."""
        return with_pair_signals(batch, row_ids, values, self.recipe.algorithm.objective)


@dataclass(frozen=True, kw_only=True)
class ReferencedPairData(PairData):
    """Rows of pairs; the reference's log probabilities are computed before the first step and recorded."""

    def check(self, engine: Engine) -> None:
        """Raises `RequestError` if the engine computes no log probabilities, or cannot switch adapters off."""
        name = f"algorithm.name: {self.recipe.algorithm.name}"
        if not isinstance(engine, LikelihoodEngine):
            raise RequestError(f"engine {engine.name} does not support {name}",
                               "an engine that computes log probabilities", "engine=jax")
        if not self.recipe.method.trains_all_weights and not isinstance(engine, AdapterEngine):
            raise RequestError(f"engine {engine.name} does not support {name} with adapters",
                               "an engine that switches them off", "method.name=full, or engine=jax")

    def signal_values(self, engine: Engine, writer: RunWriter, state: State, step: int) -> pair_rows.LogProbs:
        """The reference's log probabilities by row id: recorded ones, or before the first step those of ``state``."""
        path = writer.path(REFERENCE_LOG_PROBS)
        if path.is_file():
            return pair_rows.read_log_prob_lines(jsonl.read(path)[0])
        if step:
            raise RecordError("the reference's log probabilities are missing, and the run has already taken "
                              f"{step} steps with them")
        started = perf_counter()
        reference = self.reference(engine, state)
        assert isinstance(engine, LikelihoodEngine)  # `check` has refused others
        computed = reference_log_probs_by_row(engine, reference, self.batches, self.steps)
        writer.event("reference", rows=len(computed), seconds=perf_counter() - started)
        writer.write_cleaned(REFERENCE_LOG_PROBS, b"".join(map(line, pair_rows.log_prob_lines(computed))))
        return computed

    def reference(self, engine: Engine, state: State) -> State:
        """The model before training: ``state`` itself, or the weights below its adapters."""
        self.check(engine)
        if self.recipe.method.trains_all_weights:
            return state
        assert isinstance(engine, AdapterEngine)  # `check` has refused others
        return engine.without_adapters(state)


def make_row_data(recipe: Recipe, rows: RowSet, devices: int) -> TraceData:
    """The training data of a recipe that learns from rows and has no teacher."""
    kind = PairData if recipe.algorithm.rows_per_example > 1 else TraceData
    if recipe.algorithm.reads_reference_first:
        kind = ReferencedPairData
    return kind(recipe=recipe, rows=rows, devices=devices)


def read_rows(resolved: ResolvedRun) -> RowSet:
    """Checked rows of a recipe's examples. Raises `RequestError` for one that must not be learned from."""
    recipe = resolved.recipe
    return pair_rows.build_example_rows(recipe.algorithm.examples, resolved.data.examples, resolved.tokenizer,
                                        resolved.template, recipe.data)


def reference_log_probs_by_row(engine: LikelihoodEngine, state: State, batches: Batches,
                               steps: int) -> dict[str, float]:
    """The reference's log probability of every row that a run of this many steps is trained on, by row id.

    Raises `TrainingFailed` for one that is not finite.
    """
    log_probs: dict[str, float] = {}
    # Each row is in one batch of the first epoch, so later epochs need no further values.
    for number in range(min(steps, batches.batches_in_epoch(0))):
        log_probs |= log_probs_by_row(engine, state, batches, Position(0, number))
    for row_id, log_prob in log_probs.items():
        if not np.isfinite(log_prob):  # every loss would be NaN
            raise TrainingFailed(f"the reference's log probability of {row_id!r} is {log_prob}")
    return log_probs


def log_probs_by_row(engine: LikelihoodEngine, state: State, batches: Batches, position: Position) -> dict[str, float]:
    """A model's log probability of each row of one batch, by row id."""
    batch, _ = batches.at(position)
    log_probs_ABS = engine.log_probs(state, batch)
    # Added up in float64 and rounded once, so that the sum depends on no order.
    sums = log_probs_ABS.sum(-1, dtype=np.float64).astype(np.float32).reshape(-1).tolist()
    return {row_id: log_prob for ids, log_prob in zip(batches.row_ids(position), sums, strict=True) for row_id in ids}


def with_pair_signals(batch: Batch, row_ids: Sequence[Sequence[str]], log_probs: pair_rows.LogProbs,
                      objective: Objective) -> Batch:
    """The batch with the signals of a preference objective, and the number of its pairs as its divisor.

    ``row_ids``: of each of its A x B sequences; ``log_probs``: of the reference, by row id, else `RecordError`.
    """
    mask = batch.loss_mask.reshape(-1, batch.tokens.shape[-1])
    # Empty sequences fill up a last batch.
    pairs = sum(len(ids) for ids in row_ids) // 2
    signals = {name: np.zeros(mask.shape, np.float32) for name in objective.signals}
    if IMITATION in signals:
        chosen = mask[::2]
        signals[IMITATION][::2] = chosen * (pairs / max(chosen.sum(dtype=np.float64), 1))
    for number, ids in enumerate(row_ids):
        for row_id in ids:
            # Only a row's sum counts. One value, with zeros at all other positions, is added up without rounding.
            first_position = number, mask[number].argmax()
            if VERDICT in signals:
                signals[VERDICT][first_position] = pair_rows.verdict_of(row_id)
            if REFERENCE in signals:
                if row_id not in log_probs:
                    raise RecordError(f"no log probability of the reference for row {row_id[:80]!r}")
                signals[REFERENCE][first_position] = log_probs[row_id]
    return replace(batch, divided_by=float(pairs), signals={
        name: signal.reshape(batch.tokens.shape) for name, signal in signals.items()})


@dataclass(frozen=True, kw_only=True)
class DistillationData(TraceData):
    """Rows of traces and their teacher; its top tokens are computed before the first step and recorded."""

    resolved: ResolvedRun
    teacher: Teacher = field()

    @property
    def objective(self) -> TopTokens:
        """The loss of an update."""
        objective = self.recipe.algorithm.objective
        assert isinstance(objective, TopTokens)  # `distill_traces` is the only algorithm with these data
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

    def signal_values(self, engine: Engine, writer: RunWriter, state: State, step: int) -> dict[str, TopTokensOfRow]:
        """The teacher's top tokens by row id. Each file of the record has those of some batches, a part."""
        started = perf_counter()
        teacher: TopTokensFunction | None = None
        values: dict[str, TopTokensOfRow] = {}
        for number, part in enumerate(self.files.parts):
            path = writer.path(top_tokens_file(number))
            if not path.is_file():
                # A teacher on other hardware rounds differently, which would mix two runs.
                if step:
                    raise RecordError(f"part {number} of the teacher's top tokens is missing, and the run has "
                                      f"already taken {step} steps with them")
                if teacher is None:
                    teacher = self.teacher.open_for_tokens(engine, self.resolved, self.objective.top_k)
                rows: dict[str, TopTokensOfRow] = {}
                for batch in part:
                    rows |= teacher_top_tokens_by_row(teacher, self.batches, Position(0, batch))
                atomic.write_bytes(path, to_bytes(rows.values()))
                # After the file, so that no event names a part that a crash prevented.
                writer.event("teacher_asked", part=number, rows=len(rows), seconds=perf_counter() - started)
            # From the file, so that this run and a resumed one train on the same bytes.
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
    # Later it would show as a loss that is not finite, and the student would seem to be the cause.
    if not np.isfinite(log_probs).all():
        raise TrainingFailed(f"a log probability of the teacher is not finite, in batch {position.batch + 1}")
    return top_tokens_by_row(batch, batches.row_ids(position), tokens, log_probs)


def with_top_tokens(batch: Batch, row_ids: Sequence[Sequence[str]], top_tokens: TeacherTopTokens,
                    objective: TopTokens) -> Batch:
    """A batch with the inputs of its objective. Raises `RecordError` if a row has no fitting top tokens."""
    sequences_by_positions = (int(np.prod(batch.tokens.shape[:2])), batch.tokens.shape[-1])
    signals = {name: np.zeros(sequences_by_positions, np.float32) for name in objective.signals}
    for row_id, number, positions in row_positions(batch, row_ids):
        row = top_tokens.get(row_id)
        if row is None or len(row.tokens_NK) != len(positions):
            raise RecordError(f"the stored top tokens of the teacher do not cover row {row_id[:80]!r}")
        names = zip(objective.target_signals, objective.log_prob_signals, strict=True)
        for rank, (token_signal, log_prob_signal) in enumerate(names):
            signals[token_signal][number, positions] = row.tokens_NK[:, rank]
            signals[log_prob_signal][number, positions] = row.log_probs_NK[:, rank]
    return replace(batch, signals={name: x.reshape(batch.tokens.shape) for name, x in signals.items()})
