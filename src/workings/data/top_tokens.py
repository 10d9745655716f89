"""What a teacher finds the most likely at each learned position of rows: how a run keeps it.

The teacher is asked about the batches of the first epoch in their order, some batches a file. A file holds two arrays
`[positions, K]`, of the positions of its batches one behind the other: row after row of each sequence. Which rows these
are follows from seed and row index, so no id stands in a file.

Shape suffixes: A accumulation, B rows, S positions, N learned positions, K tokens of a position.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import load, save

from workings.data.batches import Batches, Position
from workings.errors import RecordError
from workings.models.batch import Batch

MAX_BATCHES, MAX_BYTES = 50, 16 << 20
"""Of a file, which has one batch at least: what is asked again where a run was killed while its teacher was asked, and
what a verifier reads at a time."""
TOKENS, LOG_PROBS = "tokens", "log_probs"


@dataclass(frozen=True, eq=False)
class TopTokensOfRow:
    """At each position of a row that predicts a learned token, the most likely one first."""

    tokens_NK: np.ndarray
    """int32."""
    log_probs_NK: np.ndarray
    """float32 natural logarithms."""

    def load(self) -> "TopTokensOfRow":
        """Itself: it is in memory."""
        return self


@dataclass(frozen=True, kw_only=True, slots=True)
class KeptRow:
    """A row of a file of the run, read when it is learned from: what is said of all rows may be larger than memory."""

    path: Path
    start: int
    """Of the file's positions the row's first."""
    end: int

    def load(self) -> TopTokensOfRow:
        """What was said of it."""
        # The file is mapped and only these positions are read.
        with safe_open(self.path, framework="numpy") as file:  # type: ignore[no-untyped-call]
            return TopTokensOfRow(file.get_slice(TOKENS)[self.start:self.end],
                                  file.get_slice(LOG_PROBS)[self.start:self.end])


Said = Mapping[str, TopTokensOfRow | KeptRow]
"""By a row's id."""


def places_of_rows(batch: Batch, row_ids: Sequence[Sequence[str]]) -> Iterator[tuple[str, int, np.ndarray]]:
    """Of each row of a batch: its id, the number of its sequence among A x B, and its learned positions there."""
    length = batch.tokens.shape[-1]
    mask, segments = batch.loss_mask.reshape(-1, length), batch.segment_ids.reshape(-1, length)
    for number, ids in enumerate(row_ids):
        for segment, name in enumerate(ids, start=1):
            yield name, number, np.flatnonzero((segments[number] == segment) & (mask[number] > 0))


def of_batch(batch: Batch, row_ids: Sequence[Sequence[str]], tokens_ABSK: np.ndarray,
             log_probs_ABSK: np.ndarray) -> dict[str, TopTokensOfRow]:
    """What was said of the rows of a batch, row by row."""
    tokens, log_probs = (x.reshape(-1, *x.shape[2:]) for x in (tokens_ABSK, log_probs_ABSK))
    return {name: TopTokensOfRow(tokens[number, places], log_probs[number, places])
            for name, number, places in places_of_rows(batch, row_ids)}


def to_bytes(said: Iterable[TopTokensOfRow]) -> bytes:
    """A file's contents: safetensors, of rows in the file's order."""
    rows = list(said)
    return save({TOKENS: np.concatenate([row.tokens_NK for row in rows]),
                 LOG_PROBS: np.concatenate([row.log_probs_NK for row in rows])})


@dataclass(frozen=True, kw_only=True)
class TopTokenFiles:
    """Which batches' rows stand in which file of a run, and how a file is read."""

    batches: Batches
    steps: int
    """Of the run."""
    counts: Mapping[str, int]
    """Learned positions of each row by id."""
    count: int
    """K."""

    @cached_property
    def parts(self) -> list[range]:
        """Numbers of the first epoch's batches that the run learns from, by the file they are kept in."""
        parts: list[range] = []
        size = 0
        for number in range(min(self.steps, self.batches.batches_in_epoch(0))):
            own = 8 * self.count * sum(self.counts[name] for name in self._row_ids(number))
            if parts and len(parts[-1]) < MAX_BATCHES and size + own <= MAX_BYTES:
                parts[-1], size = range(parts[-1].start, number + 1), size + own
            else:
                parts, size = [*parts, range(number, number + 1)], own
        return parts

    def read(self, data: bytes, part: range) -> dict[str, TopTokensOfRow]:
        """What `to_bytes` wrote of the rows of these batches.

        Raises:
            RecordError: not these two arrays of as many positions as the rows have together, or no finite numbers.
        """
        names = [name for number in part for name in self._row_ids(number)]
        sizes = [self.counts[name] for name in names]
        try:
            arrays = load(data)
        except SafetensorError as error:
            raise RecordError(f"top tokens of a teacher: {str(error)[:80]}") from None
        formats = {name: (str(x.dtype), x.shape) for name, x in arrays.items()}
        shape = sum(sizes), self.count
        if formats != {TOKENS: ("int32", shape), LOG_PROBS: ("float32", shape)}:
            raise RecordError(f"top tokens of a teacher: {formats}, expected int32 and float32 of {shape}")
        if not np.isfinite(arrays[LOG_PROBS]).all():
            raise RecordError("top tokens of a teacher: a log probability that is not finite")
        ends = np.cumsum(sizes)[:-1]
        return {name: TopTokensOfRow(tokens, log_probs) for name, tokens, log_probs in zip(
            names, np.split(arrays[TOKENS], ends), np.split(arrays[LOG_PROBS], ends), strict=True)}

    def kept(self, path: Path, part: range) -> dict[str, KeptRow]:
        """The rows of a file, of which nothing stays in memory. Raises `RecordError` as `read` does."""
        sizes = {name: len(row.tokens_NK) for name, row in self.read(path.read_bytes(), part).items()}
        ends = np.cumsum(list(sizes.values())).tolist()
        return {name: KeptRow(path=path, start=end - size, end=end)
                for (name, size), end in zip(sizes.items(), ends, strict=True)}

    def _row_ids(self, number: int) -> list[str]:
        return [name for ids in self.batches.row_ids(Position(0, number)) for name in ids]
