"""The next batch and what a run tells about it, made in a thread while the device takes the step before."""

from concurrent.futures import Executor, Future
from dataclasses import dataclass

from workings.data.batches import Batches, Position
from workings.models.batch import Batch


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A batch and what is told about it."""

    batch: Batch
    after: Position
    """Where the next one starts."""
    digest: str
    """`Batches.digest`."""
    tokens: int
    """Positions that are not padding."""
    supervised_tokens: int
    """Positions that count in the loss."""


class Prefetcher:
    """Batches by position, of which the next can be begun early.

    A batch is a pure function of its position, so neither the time at which it is made nor the thread changes it; at
    most one is made ahead.
    """

    def __init__(self, batches: Batches, thread: Executor) -> None:
        self._batches = batches
        self._thread = thread
        self._begun: tuple[Position, Future[Drawn]] | None = None

    def begin(self, position: Position) -> None:
        """Start with the batch at a position; returns at once."""
        self._begun = position, self._thread.submit(self._draw, position)

    def take(self, position: Position) -> Drawn:
        """The batch at a position, begun or not. Raises `RecordError` as `Batches.at` does."""
        begun, self._begun = self._begun, None
        if begun is not None and begun[0] == position:
            return begun[1].result()
        return self._thread.submit(self._draw, position).result()

    def _draw(self, position: Position) -> Drawn:
        batch, after = self._batches.at(position)
        return Drawn(batch=batch, after=after, digest=self._batches.digest(batch), tokens=batch.real_tokens,
                     supervised_tokens=batch.supervised_tokens)
