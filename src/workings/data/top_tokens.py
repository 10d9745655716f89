"""A teacher's most likely tokens at each learned position of rows, and the files of a run that hold them.

The teacher is queried for the batches of the first epoch in their order, some batches per file. A file holds two arrays
`[positions, K]` over the positions of its batches, row after row of each sequence. Which rows these are follows from
seed and row index, so a file holds no ids.

Shape suffixes: A accumulation, B rows, S positions, N learned positions, K tokens of a position.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load, save

from workings.data.batches import Batches, Position
from workings.errors import RecordError
from workings.models.batch import Batch

MAX_BATCHES, MAX_BYTES = 50, 16 << 20
"""Size limits of a file, which has one batch at least: a killed run queries the teacher again for one file at most, and
a verifier reads one file at a time."""
TOKENS, LOG_PROBS = "tokens", "log_probs"


@dataclass(frozen=True, eq=False)
class TopTokensOfRow:
    """Top tokens at each position of a row that predicts a learned token, the most likely one first."""

    tokens_NK: np.ndarray
    """int32."""
    log_probs_NK: np.ndarray
    """float32 natural logarithms."""


TeacherTopTokens = Mapping[str, TopTokensOfRow]
"""Top tokens by row id."""


def row_positions(batch: Batch, row_ids: Sequence[Sequence[str]]) -> Iterator[tuple[str, int, np.ndarray]]:
    """Id of each row of a batch, the number of its sequence among A x B, and its learned positions there."""
    length = batch.tokens.shape[-1]
    mask, segments = batch.loss_mask.reshape(-1, length), batch.segment_ids.reshape(-1, length)
    for number, ids in enumerate(row_ids):
        for segment, name in enumerate(ids, start=1):
            yield name, number, np.flatnonzero((segments[number] == segment) & (mask[number] > 0))


def top_tokens_by_row(batch: Batch, row_ids: Sequence[Sequence[str]], tokens_ABSK: np.ndarray,
             log_probs_ABSK: np.ndarray) -> dict[str, TopTokensOfRow]:
    """Top tokens of a batch split by row."""
    tokens, log_probs = (x.reshape(-1, *x.shape[2:]) for x in (tokens_ABSK, log_probs_ABSK))
    return {name: TopTokensOfRow(tokens[number, positions], log_probs[number, positions])
            for name, number, positions in row_positions(batch, row_ids)}


def to_bytes(rows: Iterable[TopTokensOfRow]) -> bytes:
    """Contents of a file in safetensors format, for rows in the file's order."""
    rows = list(rows)
    return save({TOKENS: np.concatenate([row.tokens_NK for row in rows]),
                 LOG_PROBS: np.concatenate([row.log_probs_NK for row in rows])})


@dataclass(frozen=True, kw_only=True)
class TopTokenFiles:
    """Assignment of the batches' rows to the files of a run, and how a file is read."""

    batches: Batches
    steps: int
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
        """Reads the rows of these batches as `to_bytes` wrote them. Raises `RecordError` for anything else."""
        try:
            # From bytes that were hashed, and not from the file, which may have changed since.
            arrays = load(data)
        except SafetensorError as error:
            raise RecordError(f"top tokens of a teacher: {str(error)[:80]}") from None
        formats = {name: (str(x.dtype), x.shape) for name, x in arrays.items()}
        shape = sum(self.counts[name] for number in part for name in self._row_ids(number)), self.count
        if formats != {TOKENS: ("int32", shape), LOG_PROBS: ("float32", shape)}:
            raise RecordError(f"top tokens of a teacher: {formats}, expected int32 and float32 of {shape}")
        if not np.isfinite(arrays[LOG_PROBS]).all():
            raise RecordError("top tokens of a teacher: a log probability that is not finite")
        return self._by_row(arrays, part)

    def open_rows(self, path: Path, part: range) -> dict[str, TopTokensOfRow]:
        """The rows of a file, which is mapped: all rows may not fit in memory. Raises `RecordError` as `read` does."""
        self.read(path.read_bytes(), part)
        mapped = np.memmap(path, np.uint8, "r")
        start = 8 + int.from_bytes(mapped[:8].tobytes(), "little")
        header = json.loads(mapped[8:start].tobytes())
        return self._by_row({name: mapped[start:][slice(*header[name]["data_offsets"])].view(kind).reshape(
            header[name]["shape"]) for name, kind in ((TOKENS, np.int32), (LOG_PROBS, np.float32))}, part)

    def _by_row(self, arrays: Mapping[str, np.ndarray], part: range) -> dict[str, TopTokensOfRow]:
        names = [name for number in part for name in self._row_ids(number)]
        ends = np.cumsum([self.counts[name] for name in names])[:-1]
        return {name: TopTokensOfRow(tokens, log_probs) for name, tokens, log_probs in zip(
            names, np.split(arrays[TOKENS], ends), np.split(arrays[LOG_PROBS], ends), strict=True)}

    def _row_ids(self, number: int) -> list[str]:
        return [name for ids in self.batches.row_ids(Position(0, number)) for name in ids]
