"""OLMo 3's stretched rotation on the PyTorch engine against plain transformers: its class, eager, our export."""

import json
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import torch
import transformers

from tests.engines.tiny import request, tiny_shape
from tests.engines.torch_oracle import our_logits, plain, roughened, their_logits
from workings.engines.torch.engine import TorchEngine

YARN = (8.0, 16, 32.0, 1.0, 1.2079441541679836)
"""OLMo 3's own numbers but for the original context, which is 8192 there."""
def opened(**shape: Any) -> TorchEngine:
    return TorchEngine.open(request(tiny_shape("olmo3", layers=4, rope_yarn=YARN, **shape)))


def rows(count: int = 40) -> np.ndarray:
    return np.random.default_rng(5).integers(0, 61, (2, count)).astype(np.int32)


def test_global_layers_of_an_olmo_are_stretched_as_transformers_stretches_them(tmp_path: Path) -> None:
    """All layers global: plain transformers computes the very same, frequencies and longer keys and queries."""
    engine = opened(layer_types=("global",) * 4)
    state = roughened(engine)
    engine.export(state, tmp_path)
    ours, theirs = our_logits(engine, state, rows()), their_logits(plain(tmp_path), rows())
    assert np.abs(ours - theirs).max() < 2e-5 * np.abs(theirs).max()


def test_sliding_layers_of_an_olmo_are_not_stretched(tmp_path: Path) -> None:
    """All layers slide: they compute what plain transformers computes without YaRN."""
    engine = opened(layer_types=("sliding",) * 4)
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

    engine = opened()
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
