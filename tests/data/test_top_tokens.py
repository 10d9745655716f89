"""What a teacher said of rows, kept in files of the run."""

import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from workings.config.data import DataConfig
from workings.data.batches import Batches, Position
from workings.data.rows import Row, RowSet
from workings.data.top_tokens import TopTokenFiles, TopTokensOfRow, to_bytes
from workings.errors import RecordError

POSITIONS, K = 200, 16


def _files(count: int) -> TopTokenFiles:
    tokens = np.arange(POSITIONS + 1, dtype=np.int32)
    mask = np.ones(POSITIONS + 1, np.uint8)
    mask[0] = 0
    rows = RowSet(tuple(Row(f"r{n}", tokens, mask, "", ()) for n in range(count)), (), 0, POSITIONS + 1)
    batches = Batches(rows, seed=0, rows_per_micro_batch=4, accumulation=1,
                      data_config=DataConfig(traces="x", max_length=POSITIONS + 1))
    return TopTokenFiles(batches=batches, steps=count // 4, counts={f"r{n}": POSITIONS for n in range(count)}, count=K)


def test_rows_are_read_from_their_file_when_they_are_asked_for(tmp_path: Path) -> None:
    files, numbers = _files(120), np.random.default_rng(0)
    [part] = files.parts
    names = [name for batch in part for ids in files.batches.row_ids(Position(0, batch)) for name in ids]
    said = {name: TopTokensOfRow(numbers.integers(0, 9, (POSITIONS, K), np.int32),
                                 -numbers.random((POSITIONS, K), np.float32)) for name in names}
    path = tmp_path / "part.safetensors"
    path.write_bytes(to_bytes(said.values()))
    tracemalloc.start()
    try:
        kept = files.open_rows(path, part)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < path.stat().st_size / 20
    assert list(kept) == names
    for name in (names[0], names[57], names[-1]):
        np.testing.assert_array_equal(kept[name].tokens_NK, said[name].tokens_NK)
        np.testing.assert_array_equal(kept[name].log_probs_NK, said[name].log_probs_NK)
    path.write_bytes(to_bytes(list(said.values())[:-1]))
    with pytest.raises(RecordError, match="expected int32 and float32"):
        files.open_rows(path, part)
