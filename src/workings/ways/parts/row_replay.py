"""Batches of recorded rows with the signals of their objective, and wrong ones for the controls.

Shape suffixes: A accumulation, B rows, S positions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Generic, TypeVar

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.pair_rows import LogProbs, read_log_prob_lines
from workings.data.top_tokens import TeacherTopTokens, TopTokenFiles, TopTokensOfRow
from workings.engines.base import LikelihoodEngine, State
from workings.models.batch import Batch
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.top_tokens import TopTokens
from workings.record import jsonl
from workings.record.layout import REFERENCE_LOG_PROBS, top_tokens_file
from workings.record.storage import read_plain
from workings.ways.parts.distillation_data import teacher_top_tokens_by_row, with_top_tokens
from workings.ways.parts.replay_source import BatchSource, ReopenedRun, StepInputs
from workings.ways.parts.row_data import ReferencedPairData, TraceData, log_probs_by_row
from workings.ways.parts.teacher import Teacher

T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class RowSource(Generic[T]):
    """Batches of rows: they follow from the data position and the rows' signals."""

    batches: Batches
    add: Callable[[Batch, Sequence[Sequence[str]], Mapping[str, T]], Batch]
    """Adds the signals of its rows to a batch, given the row ids of its sequences."""
    recorded: Mapping[str, T] = field(default_factory=dict)
    """Recorded signals by row id: log probabilities of the reference, or top tokens of the teacher."""
    compute: Callable[[State, Position], Mapping[str, T]] | None = None
    """Computes those of the rows of a batch again; None: the recorded ones are used."""
    change: Callable[[Batch], Batch] = lambda batch: batch
    """For controls: makes the batch to use in place of the correct one."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step. Raises `RecordError` for a row without a recorded signal."""
        del step
        batch, after = self.batches.at(position)
        digest = self.batches.digest(batch)
        signals = self.recorded
        # In a later epoch rows have other neighbours than when these were computed, which may change last bits.
        if self.compute is not None and position.epoch == 0:
            signals = {**signals, **self.compute(state, position)}
        with_signals = self.add(batch, self.batches.row_ids(position), signals)
        return StepInputs(batch=self.change(with_signals), after=after, digest=digest)


def with_a_pair_swapped(batch: Batch) -> Batch:
    """The batch with the two rows of the first pair swapped."""
    order = np.arange(batch.tokens.shape[1])
    order[:2] = 1, 0
    # In the first micro batch: the first pair of a batch is never an empty one.
    arrays = {name: np.concatenate([x_ABS[:1, order], x_ABS[1:]]) for name, x_ABS in batch.arrays.items()}
    positions = batch.loss_positions
    return replace(
        Batch.of(arrays, batch.divided_by),
        loss_positions=None if positions is None else np.concatenate([positions[:1, order], positions[1:]]))


def with_another_reference(batch: Batch) -> Batch:
    """The batch with the reference log probability of the first row increased by 0.5."""
    signal_ABS = batch.signals[REFERENCE].copy()
    signal_ABS[0, 0, batch.loss_mask[0, 0].argmax()] += 0.5
    return replace(batch, signals={**batch.signals, REFERENCE: signal_ABS})


def with_another_top_token(batch: Batch) -> Batch:
    """The batch with half the probability of the teacher's most likely token at the first supervised position."""
    name = next(name for name in sorted(batch.signals) if name.startswith("teacher_log_prob_"))
    signal = batch.signals[name].copy()
    signal.reshape(-1)[batch.loss_mask.reshape(-1).argmax()] -= 0.7
    return replace(batch, signals={**batch.signals, name: signal})


def replayed_pairs(opened: ReopenedRun, data: ReferencedPairData, *, exact: bool) -> RowSource[float]:
    """Preference pairs with their reference log probabilities: recorded ones or, for an exact replay, new ones."""
    recorded = read_log_prob_lines(jsonl.read(opened.run.path / REFERENCE_LOG_PROBS)[0])
    # Another seed, for a control, may begin with rows that a short run never reached.
    known = {**dict.fromkeys(data.rows.ids, 0.0), **recorded}

    def compute(state: State, position: Position) -> LogProbs:
        engine = opened.engine
        reference = opened.first_weights if opened.recipe.method.trains_all_weights else data.reference(engine, state)
        assert isinstance(engine, LikelihoodEngine)  # the run was trained by one
        return log_probs_by_row(engine, reference, data.batches, position)

    return RowSource(batches=data.batches, add=data.add_signals, recorded=known, compute=compute if exact else None)


def replayed_top_tokens(opened: ReopenedRun, objective: TopTokens, batches: Batches) -> RowSource[Any]:
    """Traces with the teacher's top tokens: computed again if the teacher can be opened, else the recorded ones."""
    compute = None
    if isinstance(opened.teacher, Teacher):
        teacher = opened.teacher.open_for_tokens(opened.engine, opened, objective.top_k)

        def compute(state: State, position: Position) -> Mapping[str, TopTokensOfRow]:
            del state
            return teacher_top_tokens_by_row(teacher, batches, position)

    return RowSource(batches=batches, recorded=_recorded_top_tokens(opened, objective.top_k), compute=compute,
                     add=partial(with_top_tokens, objective=objective))


def _recorded_top_tokens(opened: ReopenedRun, count: int) -> TeacherTopTokens:
    """Recorded teacher top tokens; uniform ones for rows that only another seed reaches."""
    recorded: dict[str, TopTokensOfRow] = {}
    # The run's own order decides which rows share a file, for any seed of a control.
    own = TraceData(recipe=opened.recipe, rows=opened.rows, devices=opened.row_devices)
    counts = own.rows.learned_positions
    files = TopTokenFiles(batches=own.batches, steps=own.steps, counts=counts, count=count)
    for number, part in enumerate(files.parts):
        recorded |= files.read(read_plain(opened.run.path / top_tokens_file(number)), part)
    # The placeholder gives its tokens half of the probability together, in equal parts.
    return {name: TopTokensOfRow(np.zeros((size, count), np.int32), np.full((size, count), -np.log(2 * count)))
            for name, size in counts.items() if name not in recorded} | recorded


CONTROLS: dict[str, tuple[str, str, Callable[[Batch], Batch]]] = {
    "pair": ("pair", "one pair of every step swapped", with_a_pair_swapped),
    "reference": ("reference", "one log probability of the reference moved", with_another_reference),
    "top_tokens": ("teacher", "one log probability of the teacher moved", with_another_top_token)}
"""Changes of every batch that a replay must distinguish from the record: name in its report, words, and change."""


def wrong_rows(source: BatchSource, names: Sequence[str]) -> dict[str, tuple[str, BatchSource]]:
    """For some of `CONTROLS` their words and a source that changes every batch."""
    assert isinstance(source, RowSource)
    return {told: (words, replace(source, change=change)) for told, words, change in map(CONTROLS.__getitem__, names)}
