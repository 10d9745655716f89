"""Names of shards, and the tensors that their slices make up."""

from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from workings.engines.checkpoint_files import CheckpointFile
from workings.engines.safetensors_file import open_tensors, write_shard
from workings.errors import RecordError
from workings.models.shards import join_slices, missing_shards, shard_file, shard_files, slice_name, whole_file

NAMES = [f"model.shard_0000{i}_of_00003.safetensors" for i in range(3)]
FORMAT = np.dtype(ml_dtypes.bfloat16)


def test_a_file_and_its_shards_are_told_by_their_names() -> None:
    assert [shard_file("model.safetensors", i, 3) for i in range(3)] == NAMES
    others = ["optimizer.shard_00000_of_00001.safetensors", "model.safetensors", "state.json"]
    assert shard_files([*reversed(NAMES), *others], "model.safetensors") == NAMES
    assert [whole_file(name) for name in (NAMES[1], *others)] == ["model.safetensors", "optimizer.safetensors",
                                                                 *others[1:]]
    assert missing_shards([NAMES[0], NAMES[2], *others]) == [NAMES[1]]
    assert missing_shards(others) == []


@pytest.mark.parametrize(("names", "said"), [
    (["model.safetensors"], r"there is no model\.safetensors and no shard of it"),
    (NAMES[:2], "has 2 shards that do not make 3"), ([*NAMES, shard_file("model.safetensors", 0, 2)], "do not make"),
    ([shard_file("model.safetensors", 0, 99999)], "has 1 shards that do not make 99999")])
def test_shards_of_no_whole_checkpoint_are_refused(names: list[str], said: str) -> None:
    with pytest.raises(RecordError, match=said):
        shard_files(names, "model.safetensors")


def grid(*slices: tuple[str, tuple[int, ...]]) -> list[tuple[str, str, str, tuple[int, ...]]]:
    return [(f"file {i}", key, "F32", size) for i, (key, size) in enumerate(slices)]


def test_slices_make_up_their_tensors() -> None:
    tensors = join_slices(grid(("w@0,0", (3, 2)), ("w@3,0", (2, 2)), ("w@0,2", (3, 5)), ("w@3,2", (2, 5)), ("step", ()),
                               ("b@0", (4,)), ("b@4", (1,)), ("norm", (7,))))
    assert {name: tensor.shape for name, tensor in tensors.items()} == {
        "w": (5, 7), "step": (), "b": (5,), "norm": (7,)}


@pytest.mark.parametrize("slices", [
    grid(("w", (4,)), ("w", (4,))), grid(("w@0", (4,)), ("w@3", (4,))), grid(("w@0", (4,)), ("w@5", (4,))),
    grid(("w@4", (4,))), grid(("w@0,0", (2, 2)), ("w@2,2", (2, 2))), grid(("w@0,0", (2, 2)), ("w@2", (2,))),
    grid(("w@0,0", (2, 2)), ("w@2,0", (2, 3))), grid(("w@0", (4,)), ("w@0", (4,)), ("w@4", (4,)))])
def test_slices_that_overlap_or_leave_a_gap_are_refused(slices) -> None:
    with pytest.raises(RecordError, match="w: its slices overlap or leave a gap"):
        join_slices(slices)


@pytest.mark.parametrize("key", ["w@", "w@x", "w@00", "w@-1", "w@1,2", "w@٣"])
def test_a_slice_says_where_it_begins(key: str) -> None:
    with pytest.raises(RecordError, match="does not say where the slice begins"):
        join_slices(grid((key, (4,))))


def test_slices_of_two_formats_are_refused() -> None:
    with pytest.raises(RecordError, match="is BF16, and another slice of it is F32"):
        join_slices([("a", "w@0", "F32", (2,)), ("b", "w@2", "BF16", (2,))])


@pytest.fixture
def sharded(tmp_path: Path) -> tuple[Path, np.ndarray]:
    """A folder with a tensor of 5 x 6 in two shards of two slices each, and the tensor."""
    tensor = np.arange(30).reshape(5, 6).astype(FORMAT)
    for process, columns in enumerate((slice(0, 4), slice(4, 6))):
        parts = {slice_name("w", (rows.start, columns.start), tensor[rows, columns].shape, tensor.shape):
                 tensor[rows, columns] for rows in (slice(0, 3), slice(3, 5))}
        if process == 0:
            parts["step"] = np.array(7, np.int32)
        write_shard(tmp_path, "model.safetensors", (process, 2),
                    {key: (part.dtype, part.shape) for key, part in parts.items()}, parts.__getitem__)
    return tmp_path, tensor


def test_any_part_is_read_from_the_files_that_have_it(sharded) -> None:
    folder, tensor = sharded
    file = CheckpointFile(folder, "model.safetensors")
    for index in [(...,), (slice(1, 4), ...), (slice(None), slice(3, 5), ...), (slice(4, 9), slice(5, 6), ...),
                  (slice(5, 9), ...)]:
        part = file.read("w", (5, 6), FORMAT, index)
        assert part.dtype == FORMAT
        np.testing.assert_array_equal(part, tensor[index])
    assert file.read("step", (), np.dtype(np.int32)) == 7
    with pytest.raises(RecordError, match=r"w is bfloat16 \(5, 6\), this run needs float32 \(5, 6\)"):
        file.read("w", (5, 6), np.dtype(np.float32))
    # The other shard is not needed for these columns, and not read.
    second = folder / shard_file("model.safetensors", 1, 2)
    opened = open_tensors(folder / "model.safetensors")
    second.unlink()
    np.testing.assert_array_equal(opened.read("w", (slice(0, 5), slice(0, 4), ...)), tensor[:, :4])
    with pytest.raises(RecordError, match="has 1 shards that do not make 2"):
        open_tensors(folder / "model.safetensors")
