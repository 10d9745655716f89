"""Rows that were made and proved once, kept as arrays, so that a large data set is not read word by word each time.

A folder is named by a digest of everything that decides its rows and their index: the traces, the tokenizer, the chat
template, the recipe's settings, the home folder that an index does not name, and the code that reads traces, makes rows
and writes an index. The cache is not trusted: its files are hashed before use, and recomputed if they differ.
Rows are slices of a few large arrays; one is made when it is asked for, so that a million open at once.
"""

import inspect
import json
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import overload

import numpy as np

from workings.config.data import DataConfig
from workings.data import encode, pair_rows, preferences, row_fields, rows, traces
from workings.data.rows import Dropped, Row, RowSet
from workings.models import chat, tokenizer, turns
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record import canonical, redact
from workings.record.digest import bytes_digest, file_digest

MIN_CACHED_ROWS = 10_000
"""Traces from which on rows are kept: fewer are made as fast as they are found."""
MAX_CACHED_SETS = 4
"""Row sets kept; the ones that were used longest ago go first."""
FACTS, REST, INDEX = "facts.json", "rest.json", "index.jsonl"
"""Files with the digests of all others, values that are not arrays, and `RowSet.index_bytes`."""
ARRAYS = ("tokens", "masks", "starts", "prompt_digests", "earlier_digests", "earlier_starts")
CACHE_FILES = (REST, INDEX, *(f"{name}.npy" for name in ARRAYS))
CODE_MODULES = (traces, preferences, encode, rows, pair_rows, row_fields, chat, turns, tokenizer, canonical, redact)
"""Modules whose code decides the contents."""


@dataclass(frozen=True, kw_only=True, eq=False)
class RowArrays(Sequence[Row]):
    """Concatenated rows."""

    ids: list[str]
    tokens: np.ndarray
    """int32 ``[tokens of all rows]``."""
    masks: np.ndarray
    """uint8 ``[tokens of all rows]``: `Row.loss_mask`."""
    starts: np.ndarray
    """int64 ``[rows + 1]``: where each row starts, and where the last one ends."""
    prompt_digests: np.ndarray
    """S64 ``[rows]``: `Row.prompt_digest`."""
    earlier_digests: np.ndarray
    """S64 ``[earlier questions of all rows]``: `Row.earlier_prompt_digests`."""
    earlier_starts: np.ndarray
    """int64 ``[rows + 1]``: where those of each row start."""

    def __len__(self) -> int:
        return len(self.ids)

    @overload
    def __getitem__(self, at: int) -> Row: ...
    @overload
    def __getitem__(self, at: slice) -> Sequence[Row]: ...
    def __getitem__(self, at: int | slice) -> Row | Sequence[Row]:
        if isinstance(at, slice):
            return [self[number] for number in range(len(self))[at]]
        # A range knows negative numbers, and raises IndexError, by which iteration over a sequence ends.
        number = range(len(self))[at]
        start, end = self.starts[number], self.starts[number + 1]
        earlier = self.earlier_digests[self.earlier_starts[number]:self.earlier_starts[number + 1]]
        return Row(self.ids[number], self.tokens[start:end], self.masks[start:end],
                   self.prompt_digests[number].decode(), tuple(digest.decode() for digest in earlier))


@dataclass(frozen=True)
class KeptRowSet(RowSet):
    """A row set that was kept, with what follows from its rows and takes long to work out."""

    rows: RowArrays
    kept_digest: str
    """`RowSet.digest` of the set that was kept."""
    kept_index: memoryview
    """`RowSet.index_bytes` of the set that was kept."""

    @cached_property
    def ids(self) -> Sequence[str]:
        """The rows' ids, in their order."""
        return self.rows.ids

    @cached_property
    def lengths(self) -> np.ndarray:
        """int64 ``[rows]``: tokens of each row."""
        return np.diff(self.rows.starts)

    @property
    def masks(self) -> np.ndarray:
        """uint8 ``[tokens of all rows]``: as they were kept."""
        return self.rows.masks

    @property
    def tokens(self) -> np.ndarray:
        """int32 ``[tokens of all rows]``: as they were kept."""
        return self.rows.tokens

    @property
    def index_bytes(self) -> memoryview:
        """The value at the time of caching."""
        return self.kept_index

    @cached_property
    def digest(self) -> str:
        """The value at the time of caching."""
        return self.kept_digest


def cache_key(traces_digest: str, its_tokenizer: Tokenizer, template: ChatTemplate, config: DataConfig) -> str:
    """SHA-256, as hex, of what decides the rows of a data set and their index."""
    # The source and not the version: between releases the code changes and the version does not.
    code = [bytes_digest(inspect.getsource(module).encode()) for module in CODE_MODULES]
    # Packing and buckets are not among them: they decide batches and leave rows as they are.
    parts = [traces_digest, its_tokenizer.digest, template.name, template.source, config.reasoning,
             config.learn, config.max_length, config.over_length, str(Path.home()), *code]
    # As JSON, because texts that are only joined could be cut in two ways.
    return bytes_digest(json.dumps(parts, ensure_ascii=False).encode())


def cached_rows(folder: Path, key: str, make: Callable[[], RowSet]) -> RowSet:
    """The rows of this key: from an intact cache entry, else computed and cached, if the disk has room."""
    path = folder / key
    cached = _read(path)
    if cached is not None:
        return cached
    row_set = make()
    try:
        _write(path, row_set)
    except OSError:
        shutil.rmtree(path, ignore_errors=True)
    return _read(path) or row_set  # the cache entry needs less memory


def _read(path: Path) -> KeptRowSet | None:
    try:
        # Hash every file before use: a flipped bit would silently train other rows.
        digests = json.loads((path / FACTS).read_text(encoding="utf-8"))["files"]
        if any(file_digest(path / name) != digests[name] for name in CACHE_FILES):
            return None
        # A plain array over the mapped pages: rows are slices, and slices of `np.memmap` cost much more to make.
        arrays = {name: np.asarray(np.load(path / f"{name}.npy", mmap_mode="r")) for name in ARRAYS}
        # like the arrays a view of this file, also when another process puts a new one in its place
        index = np.memmap(path / INDEX, np.uint8, "r").data
        rest = json.loads((path / REST).read_text(encoding="utf-8"))
        # The folder's time is that of its last use, by which the oldest are removed.
        os.utime(path)
        return KeptRowSet(RowArrays(ids=rest["ids"], **arrays), tuple(Dropped(*each) for each in rest["dropped"]),
                          rest["pad_id"], rest["max_length"], rest["digest"], index)
    # Absent, damaged or just being removed: recompute the rows.
    except (OSError, ValueError, KeyError):
        return None


def _write(place: Path, row_set: RowSet) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    # On the same file system, so that the move into place is one rename and half a folder is never seen.
    with tempfile.TemporaryDirectory(dir=place.parent) as name:
        partial = Path(name) / "rows"
        partial.mkdir()
        # One more than rows: each row ends where the next one starts, and the first starts at 0.
        starts, earlier_starts = np.zeros((2, len(row_set.rows) + 1), np.int64)
        np.cumsum(row_set.lengths, out=starts[1:])
        np.cumsum([len(row.earlier_prompt_digests) for row in row_set.rows], out=earlier_starts[1:])
        # A SHA-256 as hex has 64 characters: as S64 all digests are one array that can be mapped.
        arrays = {"tokens": np.concatenate([row.tokens for row in row_set.rows]), "masks": row_set.masks,
                  "starts": starts, "prompt_digests": np.array([row.prompt_digest for row in row_set.rows], "S64"),
                  "earlier_digests": np.array([digest for row in row_set.rows for digest in row.earlier_prompt_digests],
                                              "S64"), "earlier_starts": earlier_starts}
        for array, values in arrays.items():
            # One file for each array: an array inside an archive cannot be mapped.
            np.save(partial / f"{array}.npy", values)
        rest = {"ids": row_set.ids, "pad_id": row_set.pad_id, "max_length": row_set.max_length,
                "digest": row_set.digest, "dropped": [[each.id, each.tokens, each.reason] for each in row_set.dropped]}
        (partial / REST).write_text(json.dumps(rest), encoding="utf-8")
        (partial / INDEX).write_bytes(row_set.index_bytes)
        facts = {"files": {file: file_digest(partial / file) for file in CACHE_FILES}}
        (partial / FACTS).write_text(json.dumps(facts), encoding="utf-8")
        # A folder cannot be renamed onto a non-empty one, which was not intact.
        shutil.rmtree(place, ignore_errors=True)
        partial.replace(place)
    # A temporary folder has its files one level deeper, so a set that another process is writing is not counted.
    others = sorted((path for path in place.parent.iterdir() if (path / FACTS).is_file()),
                    key=lambda path: path.stat().st_mtime, reverse=True)
    # A set that is in use stays readable: its pages are mapped, and a removed file lives until it is closed.
    for old in others[MAX_CACHED_SETS:]:
        shutil.rmtree(old, ignore_errors=True)
