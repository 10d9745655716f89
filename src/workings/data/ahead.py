"""The next batch and its digest, made in a thread of their own while the device takes the step before."""

from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType

from workings.data.batches import Batches, Position
from workings.models.batch import Batch


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """A batch, where the next one starts, and `Batches.digest` of this one."""

    batch: Batch
    after: Position
    digest: str


class BatchesAhead:
    """Batches by position, of which the next can be begun early.

    A batch is a pure function of its position, so neither the time at which it is made nor the thread changes it; at
    most one is made ahead.
    """

    def __init__(self, batches: Batches) -> None:
        self._batches = batches
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="next batch")
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
        return Drawn(batch=batch, after=after, digest=self._batches.digest(batch))

    def __enter__(self) -> "BatchesAhead":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self._thread.shutdown(cancel_futures=True)
