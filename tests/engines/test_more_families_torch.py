"""SmolLM3, OLMo 3 and Qwen 3.5 on the PyTorch engine against plain transformers: its classes, eager, our export.

Logits and greedy text of every family are compared in `test_torch_engine`, what only Qwen 3.5 has in
`test_qwen3_5_torch`.
"""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import transformers

from tests.engines.tiny import BF16, losses, packed_batch, random_batch, request, tiny_shape
from tests.engines.torch_oracle import gradients, our_logits, plain, roughened, same, their_loss, with_adapter
from workings.config.method import LoraConfig, QloraConfig
from workings.config.training import AdafactorConfig, MemoryConfig
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.four_bit import FourBitLinear
from workings.engines.torch.lora import base_weights
from workings.models.batch import Batch

PACKED = ("smollm3", "olmo3")
NEW = (*PACKED, "qwen3_5")
YARN = (8.0, 16, 32.0, 1.0, 1.2079441541679836)
"""OLMo 3's own numbers but for the original context, which is 8192 there."""
LORA = LoraConfig(name="lora", rank=3, alpha=6)


def opened(family: str, *, shape: dict[str, Any] | None = None, **changes: Any) -> TorchEngine:
    return TorchEngine.open(request(tiny_shape(family, **{"layers": 4} | (shape or {})), **changes))


def their_logits(model: Any, tokens: np.ndarray) -> np.ndarray:
    with torch.no_grad():
        found: np.ndarray = model(torch.from_numpy(tokens).long()).logits.numpy()
    return found


def rows(count: int = 40) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 61, (2, count)).astype(np.int32)


@pytest.mark.parametrize("family", NEW)
def test_loss_and_every_gradient_equal_transformers(family: str, tmp_path: Path) -> None:
    engine = opened(family)
    state, batch = roughened(engine), random_batch(engine.spec.shape, length=14)
    engine.export(state, tmp_path)
    model = plain(tmp_path)
    loss = their_loss(model, batch)
    loss.backward()
    found = gradients(engine, state, batch)
    torch.testing.assert_close(found.pop("loss"), loss.detach(), rtol=1e-5, atol=1e-6)
    expected = {name: x.grad for name, x in model.named_parameters()}
    assert found.keys() == expected.keys()
    largest = max(float(x.abs().max()) for x in expected.values())
    for name, x in expected.items():
        torch.testing.assert_close(found[name], x, rtol=2e-4, atol=5e-5 * largest, msg=name)
    tokens = rows(14)
    np.testing.assert_array_equal(our_logits(engine, engine.load(tmp_path), tokens), our_logits(engine, state, tokens))


@pytest.mark.parametrize("shape", [{}, {"rope_yarn": YARN}], ids=["plain", "stretched"])
@pytest.mark.parametrize("family", NEW)
def test_a_cache_and_recomputed_layers_change_nothing(family: str, shape: dict[str, Any]) -> None:
    """Text of the cache is the likeliest of a whole forward without one; recomputed gradients are equal bit for bit."""
    if family != "olmo3" and shape:
        pytest.skip("published models of the others are not stretched")
    found = []
    for remat in ("none", "layer"):
        engine = opened(family, shape=shape, memory=MemoryConfig(remat=remat))
        state, batch = roughened(engine), random_batch(engine.spec.shape, length=24)
        batch.loss_mask[:] = 1.0
        found.append(gradients(engine, state, batch))
    assert all(torch.equal(x, found[1][name]) for name, x in found[0].items())
    prompt = [3, 1, 4, 1, 5, 9, 2, 6]
    [answer] = engine.generate(state, [prompt], max_new_tokens=16, stop_ids=[])
    whole = our_logits(engine, state, np.array([prompt + answer.tokens], np.int32))[0, len(prompt) - 1:-1].argmax(-1)
    assert answer.tokens == whole.tolist()


@pytest.mark.parametrize("family", PACKED)
def test_packed_rows_have_the_loss_and_gradient_of_separate_rows(family: str) -> None:
    draw = np.random.default_rng(0)
    packed = packed_batch(*(draw.integers(1, 61, n).astype(np.int32) for n in (7, 9)))
    separate = Batch(**{name: np.stack([x[0, 0, :7].tolist() + [0] * 9, x[0, 0, 7:16].tolist() + [0] * 7])[None]
                        .astype(x.dtype) for name, x in packed.arrays.items()})
    engine = opened(family)
    _, one = engine.step(roughened(engine), packed, 1e-3)
    _, two = engine.step(roughened(engine), separate, 1e-3)
    np.testing.assert_allclose([one.loss, one.grad_norm], [two.loss, two.grad_norm], rtol=2e-5)


@pytest.mark.parametrize("family", NEW)
def test_adapters_and_merged_weights_are_the_trained_model(family: str, tmp_path: Path) -> None:
    base, out = tmp_path / "base", tmp_path / "out"
    base.mkdir()
    out.mkdir()
    first = opened(family)
    first.export(roughened(first), base)
    engine = opened(family, method=LORA)
    state, found = losses(engine, engine.load(base), 6)
    assert found[-1] < found[0]
    engine.export(state, out)
    ours = our_logits(engine, state, rows(14))
    for model in (plain(out), with_adapter(base, out / "adapter")):
        assert np.abs(ours - their_logits(model, rows(14))).max() < 2e-5 * np.abs(ours).max()


@pytest.mark.parametrize("family", NEW)
def test_four_bits_hold_every_projection(family: str) -> None:
    engine = opened(family, shape={"width": 64, "mlp_width": 64}, method=QloraConfig(name="qlora", rank=2))
    state, found = losses(engine, engine.init(0), 6)
    assert found[-1] < found[0]
    # Six of a layer with a state, of which Qwen 3.5 has two here.
    assert sum(isinstance(place, FourBitLinear) for place in base_weights(state.model).values()) == (
        26 if family == "qwen3_5" else 28)


@pytest.mark.slow
@pytest.mark.parametrize("family", [family if family != "olmo3" else pytest.param(family, marks=pytest.mark.full)
                                    for family in NEW])
def test_a_resumed_run_in_bf16_is_the_same_run_bit_for_bit(family: str, tmp_path: Path) -> None:
    changes = {"precision": BF16, "optimizer": AdafactorConfig(name="adafactor"),
               "memory": MemoryConfig(optimizer_in_backward=True, remat="layer", loss_chunk=8)}
    engine = opened(family, **changes)
    state, before = losses(engine, engine.init(0), 6)
    engine.save(state, tmp_path)
    state, expected = losses(engine, state, 3, first=6)
    assert expected[-1] < before[0]
    again = opened(family, **changes)
    resumed, found = losses(again, again.restore(tmp_path), 3, first=6)
    assert found == expected
    assert same(state, resumed)


def test_global_layers_of_an_olmo_are_stretched_as_transformers_stretches_them(tmp_path: Path) -> None:
    """All layers global: plain transformers computes the very same, frequencies and longer keys and queries."""
    engine = opened("olmo3", shape={"rope_yarn": YARN, "layer_types": ("global",) * 4})
    state = roughened(engine)
    engine.export(state, tmp_path)
    ours, theirs = our_logits(engine, state, rows()), their_logits(plain(tmp_path), rows())
    assert np.abs(ours - theirs).max() < 2e-5 * np.abs(theirs).max()


def test_sliding_layers_of_an_olmo_are_not_stretched(tmp_path: Path) -> None:
    """All layers slide: they compute what plain transformers computes without YaRN."""
    engine = opened("olmo3", shape={"rope_yarn": YARN, "layer_types": ("sliding",) * 4})
    state = roughened(engine)
    engine.export(state, tmp_path)
    config = json.loads((tmp_path / "config.json").read_text(encoding="utf-8"))
    assert config.pop("rope_scaling")["rope_type"] == "yarn"
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    ours, theirs = our_logits(engine, state, rows()), their_logits(plain(tmp_path), rows())
    assert np.abs(ours - theirs).max() < 2e-5 * np.abs(theirs).max()


class _Plain(torch.nn.Module):
    """A sliding layer's attention with the plain rotation, whatever it is given."""

    def __init__(self, attention: Any, rotation: Any) -> None:
        super().__init__()
        self.attention, self.rotation = attention, rotation

    def forward(self, hidden_states: torch.Tensor, **given: Any) -> Any:
        positions = torch.arange(hidden_states.shape[1])[None]
        given["position_embeddings"] = self.rotation(hidden_states, positions)
        return self.attention(hidden_states=hidden_states, **given)


def _plain_where_it_slides(model: Any) -> None:
    """Give sliding layers of transformers' class the plain rotation, as its later releases do by themselves."""
    unscaled = deepcopy(model.config)
    unscaled.rope_parameters = {"rope_type": "default", "rope_theta": model.config.rope_parameters["rope_theta"]}
    rotation = transformers.models.olmo3.modeling_olmo3.Olmo3RotaryEmbedding(unscaled)
    for layer, kind in zip(model.model.layers, model.config.layer_types, strict=True):
        if kind == "sliding_attention":
            layer.self_attn = _Plain(layer.self_attn, rotation)


def test_a_stretched_olmo_turns_its_sliding_layers_plainly(tmp_path: Path) -> None:
    """As OLMo-core and vLLM; transformers 5.12 stretches all layers, so the same export has other logits there.

    Later releases keep a rotation for each kind of layer and give our logits; once they are the oldest that we run on,
    `engines/torch/rotation.py` can go. The JAX engine computes what this one computes.
    """
    from tests.engines.jax_oracle import our_logits as jax_logits
    from workings.engines.jax.engine import JaxEngine

    engine = opened("olmo3", shape={"rope_yarn": YARN})
    state = roughened(engine)
    engine.export(state, tmp_path)
    ours, model = our_logits(engine, state, rows()), plain(tmp_path)
    scale = float(np.abs(ours).max())
    if "sliding_attention" not in model.config.rope_parameters:
        assert np.abs(ours - their_logits(model, rows())).max() > 1e-2 * scale
        _plain_where_it_slides(model)
    assert np.abs(ours - their_logits(model, rows())).max() < 2e-5 * scale
    other = JaxEngine.open(request(engine.spec.shape))
    assert np.abs(jax_logits(other, other.load(tmp_path)["params"], rows()) - ours).max() < 2e-5 * scale
