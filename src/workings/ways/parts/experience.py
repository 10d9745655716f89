"""Sources of training batches: the loop asks for one per update."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Any

from workings.data.batches import Batches, Position
from workings.engines.base import State, StepResult
from workings.models.batch import Batch

SignalValues = Callable[[State, int], Mapping[str, Any]]
"""Computes what an objective must know of each row besides its tokens, by row id, or reads what an earlier attempt
saved; its arguments are those of `Experience.prepare`."""
AddSignals = Callable[[Batch, Sequence[Sequence[str]], Mapping[str, Any]], Batch]
"""Adds the values of its rows to a batch, given the row ids of its sequences."""


@dataclass(frozen=True, kw_only=True)
class PreparedBatch:
    """A batch with its digest."""

    batch: Batch
    after: Position
    """Where the next batch starts in the data."""
    digest: str
    """SHA-256 of the engine's inputs, by which a verifier recognizes the recomputed batch."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """Numbers about how the batch was made, for the step's metrics line: rewards, lengths."""


class Experience:
    """A source of training batches. As it is here it computes nothing ahead and adds no metrics."""

    def prepare(self, state: State, step: int) -> None:
        """Computes what depends on the first state, once before the first step, after ``step`` earlier ones."""

    def prefetch(self, position: Position, thread: Executor) -> None:
        """Starts to make the batch at a position, during the step before, if it does not need the weights after it."""

    @abstractmethod
    def next_batch(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch of update ``step``, from 1, at a position; ``state``: the model before it, not consumed."""

    def after_step(self, step: int, prepared: PreparedBatch, result: StepResult) -> Mapping[str, float]:
        """Metrics that are known only after the update. Raises `TrainingFailed` if the run cannot be learning."""
        return {}


class RowExperience(Experience):
    """Batches of rows: pure functions of their position, and of the rows' signals if the objective needs any."""

    def __init__(self, batches: Batches, values: SignalValues = lambda state, step: {},
                 add: AddSignals = lambda batch, row_ids, values: batch) -> None:
        self._batches, self._make_values, self._add = batches, values, add
        self._values: Mapping[str, Any] = {}
        self._prefetched: tuple[Position, Future[PreparedBatch]] | None = None

    def prepare(self, state: State, step: int) -> None:
        """Computes or reads the signals. Raises `RecordError` if they are lost that earlier steps were taken with."""
        self._values = self._make_values(state, step)

    def prefetch(self, position: Position, thread: Executor) -> None:
        """Starts to make the batch at a position; returns at once."""
        self._prefetched = position, thread.submit(self._make, position)

    def next_batch(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch at a position. Raises `RecordError` as `Batches.at` does."""
        # Removed here, so that its memory is free after the step.
        prefetched, self._prefetched = self._prefetched, None
        made_ahead = prefetched[1] if prefetched is not None and prefetched[0] == position else None
        prepared = self._make(position) if made_ahead is None else made_ahead.result()
        # Not on the background thread, because the first batch is prefetched before `prepare` has the values.
        return replace(prepared, batch=self._add(prepared.batch, self._batches.row_ids(position), self._values))

    def _make(self, position: Position) -> PreparedBatch:
        batch, after = self._batches.at(position)
        return PreparedBatch(batch=batch, after=after, digest=self._batches.digest(batch))
