"""A teacher's most likely tokens at each learned position of rows, and the files of a run that hold them.

The teacher is asked about the batches of the first epoch in their order. Each file holds those of some batches:

    tokens       int32   [positions, K]     row after row of each sequence
    log_probs    float32 [positions, K]     natural logarithms

Which rows these are follows from the seed and the index of rows, so a file has no ids.

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
"""Limits of a file, which has at least one batch. A killed run asks the teacher again for one file at most, and a
verifier reads one file at a time."""
TOKENS, LOG_PROBS = "tokens", "log_probs"
_BYTES_PER_TOKEN = 8
_HEADER_SIZE_BYTES = 8


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
    """For each row of a batch: its id, the number of its sequence among A x B, and its learned positions there."""
    length = batch.tokens.shape[-1]
    masks, segment_ids = batch.loss_mask.reshape(-1, length), batch.segment_ids.reshape(-1, length)
    for sequence, ids in enumerate(row_ids):
        for segment, name in enumerate(ids, start=1):
            yield name, sequence, np.flatnonzero((segment_ids[sequence] == segment) & (masks[sequence] > 0))


def top_tokens_by_row(batch: Batch, row_ids: Sequence[Sequence[str]], tokens_ABSK: np.ndarray,
                      log_probs_ABSK: np.ndarray) -> dict[str, TopTokensOfRow]:
    """Top tokens of a batch split by row."""
    tokens, log_probs = (x.reshape(-1, *x.shape[2:]) for x in (tokens_ABSK, log_probs_ABSK))
    return {name: TopTokensOfRow(tokens[sequence, positions], log_probs[sequence, positions])
            for name, sequence, positions in row_positions(batch, row_ids)}


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
    """Tokens of each position (K)."""

    @cached_property
    def parts(self) -> list[range]:
        """For each file the numbers of its batches. Together these are the batches of the first epoch that are used."""
        parts: list[range] = []
        size = 0
        for number in range(min(self.steps, self.batches.batches_in_epoch(0))):
            batch_bytes = _BYTES_PER_TOKEN * self.count * self._positions([number])
            if parts and len(parts[-1]) < MAX_BATCHES and size + batch_bytes <= MAX_BYTES:
                parts[-1] = range(parts[-1].start, number + 1)
                size += batch_bytes
            else:
                parts.append(range(number, number + 1))
                size = batch_bytes
        return parts

    def read(self, data: bytes, part: range) -> dict[str, TopTokensOfRow]:
        """The rows of these batches from the bytes of a file. Raises `RecordError` for other bytes."""
        try:
            arrays = load(data)
        except SafetensorError as error:
            raise RecordError(f"top tokens of a teacher: {str(error)[:80]}") from None
        formats = {name: (str(x.dtype), x.shape) for name, x in arrays.items()}
        shape = (self._positions(part), self.count)
        if formats != {TOKENS: ("int32", shape), LOG_PROBS: ("float32", shape)}:
            raise RecordError(f"top tokens of a teacher: {formats}, expected int32 and float32 of {shape}")
        if not np.isfinite(arrays[LOG_PROBS]).all():
            raise RecordError("top tokens of a teacher: a log probability that is not finite")
        return self._by_row(arrays, part)

    def open_rows(self, path: Path, part: range) -> dict[str, TopTokensOfRow]:
        """The rows of a file, which is mapped: all rows may not fit in memory. Raises `RecordError` as `read` does."""
        self.read(path.read_bytes(), part)
        mapped = np.memmap(path, np.uint8, "r")
        # safetensors: the size of the header, the header, the arrays.
        start = _HEADER_SIZE_BYTES + int.from_bytes(mapped[:_HEADER_SIZE_BYTES].tobytes(), "little")
        header = json.loads(mapped[_HEADER_SIZE_BYTES:start].tobytes())
        arrays = {}
        for name, dtype in ((TOKENS, np.int32), (LOG_PROBS, np.float32)):
            first, end = header[name]["data_offsets"]
            arrays[name] = mapped[start + first:start + end].view(dtype).reshape(header[name]["shape"])
        return self._by_row(arrays, part)

    def _by_row(self, arrays: Mapping[str, np.ndarray], part: range) -> dict[str, TopTokensOfRow]:
        names = [name for number in part for name in self._row_ids(number)]
        # `split` takes the borders between rows, so not the end of the last row.
        borders = np.cumsum([self.counts[name] for name in names])[:-1]
        rows = zip(names, np.split(arrays[TOKENS], borders), np.split(arrays[LOG_PROBS], borders), strict=True)
        return {name: TopTokensOfRow(tokens, log_probs) for name, tokens, log_probs in rows}

    def _positions(self, numbers: Iterable[int]) -> int:
        return sum(self.counts[name] for number in numbers for name in self._row_ids(number))

    def _row_ids(self, number: int) -> list[str]:
        return [name for ids in self.batches.row_ids(Position(0, number)) for name in ids]
