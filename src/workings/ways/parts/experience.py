"""Sources of training batches: the training loop takes one batch from its source for each update."""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field, replace
from typing import Any

from workings.data.batches import Batches, Position
from workings.engines.base import State, StepResult
from workings.models.batch import Batch

SignalValues = Callable[[State, int], Mapping[str, Any]]
"""Computes, by row id, what an objective must know of a row besides its tokens, or reads what an earlier attempt saved;
its arguments are those of `Experience.prepare`."""
AddSignals = Callable[[Batch, Sequence[Sequence[str]], Mapping[str, Any]], Batch]
"""Adds these values to a batch; its arguments are the batch, the row ids of each of its sequences, and the values."""


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
    """A source of training batches. This base class makes no batch ahead and adds no metrics."""

    def prepare(self, state: State, step: int) -> None:
        """Computes once what depends on the first state, which has already taken ``step`` steps."""

    def prefetch(self, position: Position, thread: Executor) -> None:
        """Starts to make the batch at a position while the step before runs, if it does not depend on that step."""

    @abstractmethod
    def next_batch(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch of update ``step``, from 1, at a position; ``state``, the model before it, is only read."""

    def after_step(self, step: int, prepared: PreparedBatch, result: StepResult) -> Mapping[str, float]:
        """Metrics that are known only after the update. Raises `TrainingFailed` if the run cannot be learning."""
        return {}


class RowExperience(Experience):
    """Batches of rows: functions of their position, and of the rows' signals if the objective needs any."""

    def __init__(self, batches: Batches, values: SignalValues = lambda state, step: {},
                 add: AddSignals = lambda batch, row_ids, values: batch) -> None:
        self._batches, self._make_values, self._add = batches, values, add
        self._values: Mapping[str, Any] = {}
        self._prefetched: dict[Position, Future[PreparedBatch]] = {}

    def prepare(self, state: State, step: int) -> None:
        """Computes or reads the signals. Raises `RecordError` if earlier steps used signals that are lost."""
        self._values = self._make_values(state, step)

    def prefetch(self, position: Position, thread: Executor) -> None:
        """Starts to make the batch at a position; returns at once."""
        self._prefetched = {position: thread.submit(self._make, position)}

    def next_batch(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch at a position. Raises `RecordError` as `Batches.at` does."""
        made_ahead = self._prefetched.get(position)
        self._prefetched = {}  # so that its memory is free after the step
        prepared = self._make(position) if made_ahead is None else made_ahead.result()
        # Here and not in `_make`, because the first batch is made ahead, before `prepare` has the values.
        return replace(prepared, batch=self._add(prepared.batch, self._batches.row_ids(position), self._values))

    def _make(self, position: Position) -> PreparedBatch:
        batch, after = self._batches.at(position)
        return PreparedBatch(batch=batch, after=after, digest=self._batches.digest(batch))
