"""What the next update learns from: traces that are there, or what the model itself has just written.

The loop asks an experience for one batch after the other. One that follows from the position in the data alone is made
beside the step before (`begin`); one that needs the model is made when it is asked for (`take`).
"""

from collections.abc import Mapping
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Protocol

from workings.data.batches import Batches, Position
from workings.engines.base import State, StepResult
from workings.models.batch import Batch


@dataclass(frozen=True, kw_only=True)
class PreparedBatch:
    """A batch and what is told about it."""

    batch: Batch
    after: Position
    """Where the next one starts."""
    digest: str
    """SHA-256 of what the engine is given, by which a verifier finds the same batch again."""
    tokens: int
    """Positions that are not padding."""
    supervised_tokens: int
    """Positions that count in the loss."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """What was seen while it was made, for the step's line: rewards, lengths."""


class Experience(Protocol):
    """Where batches come from."""

    def start(self, state: State, step: int) -> None:
        """Find out what has to be known of the state that steps are taken from, before the first of them.

        Args:
            state: it is read, not consumed.
            step: updates that it has behind it; 0: it is the first one.
        """
        ...

    def begin(self, position: Position, thread: Executor) -> None:
        """Start to make the batch at a position, if that needs no model; returns at once."""
        ...

    def take(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch at a position, begun or not.

        Args:
            state: the model before the update; it is read, not consumed.
            position: in the data.
            step: number of the update that learns from it, from 1.
        """
        ...

    def finish(self, step: int, prepared: PreparedBatch, result: StepResult) -> Mapping[str, float]:
        """What is known once an update was taken, for its line.

        Raises:
            TrainingFailed: going on would be of no use; the message says why.
        """
        ...


class TraceExperience:
    """Batches of rows made from traces: pure functions of their position.

    Neither the time at which one is made nor the thread changes it; at most one is made ahead.
    """

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._begun: tuple[Position, Future[PreparedBatch]] | None = None

    def start(self, state: State, step: int) -> None:
        """Nothing: batches of traces follow from their position."""
        del state, step

    def begin(self, position: Position, thread: Executor) -> None:
        """Start with the batch at a position; returns at once."""
        self._begun = position, thread.submit(self._prepare, position)

    def take(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch at a position. Raises `RecordError` as `Batches.at` does."""
        del state, step
        # Taken out, so that no batch is given twice and its memory is free after the step.
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] == position:
            return begun[1].result()
        return self._prepare(position)

    def finish(self, step: int, prepared: PreparedBatch, result: StepResult) -> Mapping[str, float]:
        """Nothing: what a batch of traces is was known before."""
        del step, prepared, result
        return {}

    def _prepare(self, position: Position) -> PreparedBatch:
        # The digest too is made here, in the thread where the device does not wait for it.
        batch, after = self._batches.at(position)
        return PreparedBatch(batch=batch, after=after, digest=self._batches.digest(batch), tokens=batch.real_tokens,
                             supervised_tokens=batch.supervised_tokens)
