"""LoRA of the JAX engine: what it exports, in peft, and what it keeps and saves. Its steps are compared with peft's in
`test_adapter_dropout.py`."""

import re
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.engines.tiny import our_logits, random_batch, request, tiny_shape
from tests.engines.torch_oracle import plain, their_logits, with_adapter
from workings.config.method import LoraConfig
from workings.config.training import MemoryConfig
from workings.engines.jax.checkpoint import unstacked
from workings.engines.jax.engine import JaxEngine
from workings.engines.safetensors_file import TensorFile
from workings.models.batch import Batch

pytestmark = pytest.mark.slow


LORA = LoraConfig(name="lora", rank=3, alpha=7.5, rank_stabilized=True,
                  target_modules=("q_proj", "v_proj", "o_proj", "gate_proj", "down_proj"))


def opened(base: Path, **changes: Any) -> JaxEngine:
    return JaxEngine.open(request(tiny_shape("gemma2"), method=LORA, weights=base, **changes))


def adapters(params: dict) -> dict[str, np.ndarray]:
    """Trained tensors by peft's names."""
    return {stored: np.asarray(x[i]) for name, x in params["layers"].items() if "lora_" in name
            for i, stored in enumerate(unstacked(f"layers.{name}", x.shape[0]))}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Weights of a small Gemma 2, exported."""
    folder = tmp_path_factory.mktemp("base")
    engine = JaxEngine.open(request(tiny_shape("gemma2")))
    engine.export(engine.init(3), folder)
    return folder


@pytest.fixture(scope="module")
def trained(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Twenty steps from a fresh adapter: the engine, its state, and what was saved."""
    engine = opened(base)
    fresh, checkpoint, exported = (tmp_path_factory.mktemp(name) for name in ("fresh", "checkpoint", "exported"))
    state = engine.load(base)
    engine.export(state, fresh)
    for number in range(20):
        state, _ = engine.step(state, random_batch(tiny_shape("gemma2"), micro=2, rows=3, seed=number % 3), 1e-2)
    engine.save(state, checkpoint)
    engine.export(state, exported)
    return {"engine": engine, "state": state, "fresh": fresh, "checkpoint": checkpoint, "exported": exported}


def test_the_exported_adapter_loads_in_peft_and_the_merged_weights_are_the_same_model(
        base: Path, trained: dict[str, Any]) -> None:
    tokens = np.random.default_rng(0).integers(0, 61, (2, 14)).astype(np.int32)
    ours = our_logits(trained["engine"], trained["state"], tokens)
    fresh, unmerged, full = (their_logits(model, tokens) for model in (
        with_adapter(base, trained["fresh"] / "adapter"), with_adapter(base, trained["exported"] / "adapter"),
        plain(trained["exported"])))
    scale = max(1.0, float(np.abs(unmerged).max()))
    assert np.abs(fresh - unmerged).max() > 0.1
    assert np.abs(ours - unmerged).max() < 1e-5 * scale
    assert np.abs(ours - full).max() < 1e-5 * scale


def test_a_fresh_adapter_is_peft_s_distribution_and_changes_nothing(base: Path) -> None:
    """A uniform within in ** -0.5, B zero; other seeds, layers and projections have other numbers."""
    found = adapters(opened(base).load(base)["params"])
    other = adapters(opened(base, seed=1).load(base)["params"])
    for name, x in found.items():
        if "lora_B" in name:
            assert not x.any()
            continue
        bound = x.shape[1] ** -0.5
        assert np.abs(x).max() <= bound
        assert abs(x.std() - bound / 3 ** 0.5) < 0.15 * bound  # at least 96 numbers: a deviation of 4 % of the bound
        assert not np.array_equal(x, other[name])
    assert len({x.tobytes() for name, x in found.items() if "lora_A" in name}) == len(found) // 2


def test_a_checkpoint_holds_the_adapters_only_and_goes_on_bit_for_bit(base: Path, trained: dict[str, Any]) -> None:
    assert sorted(file.name for file in trained["checkpoint"].iterdir()) == [
        "adapter_model.safetensors", "optimizer.safetensors"]
    names = TensorFile(trained["checkpoint"] / "adapter_model.safetensors").names()
    assert "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight" in names
    assert len(names) == 2 * 2 * len(LORA.target_modules)
    slots = TensorFile(trained["checkpoint"] / "optimizer.safetensors").names()
    moments = [f"{slot}.{name}" for slot in ("exp_avg", "exp_avg_sq") for name in names]
    assert sorted(slots) == sorted(["step", *moments])
    state = opened(base).restore(trained["checkpoint"])
    pairs = list(zip(jax.tree.leaves(state), jax.tree.leaves(dict(trained["state"])), strict=True))
    assert all(np.asarray(x).tobytes() == np.asarray(y).tobytes() for x, y in pairs)


def made(engine: JaxEngine, shape: tuple[int, int, int], size: str) -> set[str]:
    """The operations of the compiled step whose result is a float32 array of this size."""
    return set(re.findall(rf"= f32\[{size}\]\S* ([\w-]+)\(", engine.compiled_step(Batch.blank(shape)).as_text()))


def test_nothing_of_a_frozen_weight_s_size_is_made(base: Path) -> None:
    """Neither gradient, sum, moment nor copy, with accumulation: the weights come in and go out, and are read."""
    moved = {"parameter", "get-tuple-element"}
    chunked = opened(base, memory=MemoryConfig(remat="layer", loss_chunk=8))
    for engine in (opened(base, cpu_optimizations=True), chunked):
        for size in ("61,32", "2,48,32", "2,32,32"):
            assert "parameter" in made(engine, (2, 3, 12), size) <= moved, size
    # The same look at what is trained finds arithmetic.
    assert made(chunked, (2, 3, 12), "2,48,3") - moved
