"""Weight files: our writer against the library's reader, prefixes of multimodal checkpoints; damaged checkpoints."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.engines.tiny import request, tiny_shape
from workings.engines.jax.engine import JaxEngine
from workings.engines.safetensors_file import TensorFile, write_tensors
from workings.engines.torch.engine import TorchEngine
from workings.engines.weight_files import WeightFiles
from workings.errors import RecordError, RequestError


def write(path: Path, tensors: dict[str, np.ndarray]) -> None:
    sizes = {name: (x.dtype, x.shape) for name, x in tensors.items()}
    write_tensors(path, sizes, tensors.__getitem__)


def test_the_library_reads_what_we_write_and_we_read_what_it_writes(tmp_path: Path) -> None:
    library = pytest.importorskip("safetensors.numpy")
    tensors = {"a": np.arange(6, dtype=np.float32).reshape(2, 3), "empty": np.zeros((0, 4), np.float32),
               "count": np.array(7, np.int32)}
    write(tmp_path / "ours", tensors)
    theirs = library.load_file(tmp_path / "ours")
    library.save_file(tensors, tmp_path / "theirs")
    again = TensorFile(tmp_path / "theirs")
    for name, x in tensors.items():
        np.testing.assert_array_equal(theirs[name], x)
        np.testing.assert_array_equal(again.read(name), x)
        assert (again.shape(name), again.dtype(name)) == (x.shape, x.dtype)


@pytest.mark.parametrize("prefix", ["language_model.model.", "model.language_model."])
def test_the_text_part_of_a_multimodal_checkpoint_is_found(prefix: str, tmp_path: Path) -> None:
    x = np.ones((2, 2), np.float32)
    write(tmp_path / "model.safetensors", {f"{prefix}norm.weight": x, "vision_tower.a": x})
    assert WeightFiles(tmp_path, {"model.norm.weight": (2, 2)}).read("model.norm.weight").shape == (2, 2)
    with pytest.raises(RequestError, match=r"has no tensor model\.embed"):
        WeightFiles(tmp_path, {"model.embed_tokens.weight": (2, 2)})


def test_a_tensor_of_another_shape_than_announced_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecordError, match="announced as"):
        write_tensors(tmp_path / "x", {"a": (np.dtype(np.float32), (3,))}, lambda _: np.zeros(2, np.float32))


@pytest.mark.parametrize("engine", [JaxEngine, TorchEngine])
def test_a_damaged_or_foreign_checkpoint_is_refused(engine: Any, tmp_path: Path) -> None:
    own, other = engine.open(request(tiny_shape())), engine.open(request(tiny_shape(layers=1, vocab=60)))
    own.save(own.init(0), tmp_path)
    with pytest.raises(RecordError, match=r"embed_tokens.*\(61, 32\), this run needs float32 \(60, 32\)"):
        other.restore(tmp_path)
    with (tmp_path / "optimizer.safetensors").open("r+b") as file:
        file.truncate(2000)
    with pytest.raises(RecordError, match="cut short"):
        own.restore(tmp_path)
    (tmp_path / "optimizer.safetensors").unlink()
    with pytest.raises(RecordError, match=r"no optimizer\.safetensors"):
        own.restore(tmp_path)


def test_weights_of_another_model_are_refused(tmp_path: Path) -> None:
    engine = JaxEngine.open(request(tiny_shape()))
    engine.export(engine.init(0), tmp_path)
    with pytest.raises(RequestError, match="vocab_size=60"):
        JaxEngine.open(request(tiny_shape(vocab=60))).load(tmp_path)
