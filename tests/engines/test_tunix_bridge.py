"""Weights to Tunix's classes and back, and our exports in its own loader and sampler."""

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.tiny import PROMPTS, our_logits, request, tiny_shape
from workings.config.training import PrecisionConfig
from workings.engines.jax.engine import JaxEngine

nnx = pytest.importorskip("flax.nnx")
pytest.importorskip("tunix")
# Tunix uses names that Flax has deprecated.
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

GEMMA3 = {"query_scale": 0.0, "layers": 6, "sliding_pattern": 6, "rope_scaling": 8.0}


def noisy(engine: JaxEngine, seed: int = 0) -> dict:
    """A state whose norms are not what they start as."""
    state, draw = engine.init(seed), np.random.default_rng(seed)
    layers = {name: jnp.asarray(np.asarray(x) + draw.normal(0, 0.2, x.shape).astype(x.dtype))
              for name, x in state["params"]["layers"].items()}
    return state | {"params": state["params"] | {"layers": layers}}


def their_logits(model: Any, tokens: np.ndarray) -> np.ndarray:
    index = jnp.arange(tokens.shape[1])[None]
    mask = index[..., None] >= index[:, None]
    return np.asarray(nnx.jit(lambda m, t: m(t, index, None, mask)[0])(model, tokens))


def assert_equal_logits(engine: JaxEngine, params: dict, model: Any) -> None:
    tokens = np.array([PROMPTS[0]], np.int32)
    ours, theirs = our_logits(engine, {"params": params}, tokens), their_logits(model, tokens)
    assert np.abs(theirs).max() > 0.5
    assert np.abs(ours - theirs).max() < 1e-5 * np.abs(theirs).max()


@pytest.mark.parametrize(("family", "changes", "dtype"), [
    pytest.param("gemma", {"kv_heads": 2}, "bf16", marks=pytest.mark.full), ("gemma", {"kv_heads": 4}, "fp32"),
    pytest.param("gemma2", {"query_scale": 0.0}, "fp32", marks=pytest.mark.full),
    ("gemma3", GEMMA3, "fp32"),
])
def test_tunix_classes_compute_our_logits_and_give_the_weights_back_bit_for_bit(
        family: str, changes: dict[str, Any], dtype: str) -> None:
    """Gemma 1 with both of Tunix's layouts of k and v; Gemma 2 with both caps, a window of four and its four norms;
    Gemma 3 with its norms on q and k, both rope bases and a scaled one."""
    from workings.engines.tunix.bridge import from_tunix, tunix_model

    shape = tiny_shape(family, **changes)
    engine = JaxEngine.open(request(shape, precision=PrecisionConfig(parameters=dtype)))
    params = noisy(engine)["params"]
    model = tunix_model(params, shape)
    back = from_tunix({path: x.get_value() for path, x in nnx.to_flat_state(nnx.state(model, nnx.Param))}, shape)
    assert jax.tree.structure(back) == jax.tree.structure(params)
    for ours, theirs in zip(jax.tree.leaves(params), jax.tree.leaves(back), strict=True):
        assert ours.dtype == theirs.dtype
        assert np.asarray(ours).tobytes() == np.asarray(theirs).tobytes()
    if dtype == "fp32":
        assert_equal_logits(engine, params, model)


def test_tunix_loads_our_export_with_equal_logits_and_greedy_text(tmp_path: Path) -> None:
    """Tunix's own loader of safetensors, its own model, its own sampler."""
    from tunix.models.gemma3 import params_safetensors

    from workings.engines.tunix.engine import greedy, make_sampler
    from workings.engines.tunix.trainer import model_class

    shape = tiny_shape("gemma3", **GEMMA3)
    engine = JaxEngine.open(request(shape))
    state = noisy(engine, 3)
    engine.export(state, tmp_path)
    config = nnx.eval_shape(model_class(shape)).config
    model = params_safetensors.create_model_from_safe_tensors(str(tmp_path), config, dtype=jnp.float32)
    assert_equal_logits(engine, state["params"], model)
    ours = [answer.tokens for answer in engine.generate(state, PROMPTS, max_new_tokens=10, stop_ids=[])]
    padded = max(map(len, PROMPTS))
    found = greedy(make_sampler(model, shape, padded + 10), PROMPTS, padded=padded, max_new_tokens=10, stop_ids=[])
    assert [completion.tokens for completion in found] == ours
