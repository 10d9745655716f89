"""Our Gemma 1, 2 and 3 against Tunix's classes with the same weights."""

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.jax_oracle import our_logits
from tests.engines.tiny import request, tiny_shape
from workings.engines.jax.engine import JaxEngine
from workings.models.shape import ModelShape
from workings.models.weights import EMBEDDING, FINAL_NORM

pytestmark = pytest.mark.slow

nnx = pytest.importorskip("flax.nnx")


def gemma12(shape: ModelShape) -> Any:
    """Tunix's class for Gemma 1 and 2 at this shape."""
    from tunix.models.gemma import model as theirs

    kinds = (theirs.AttentionType.GLOBAL, theirs.AttentionType.LOCAL_SLIDING)
    return theirs.Gemma(theirs.ModelConfig(
        num_layers=shape.layers, num_embed=shape.vocab_size, embed_dim=shape.width, hidden_dim=shape.mlp_width,
        num_heads=shape.heads, head_dim=shape.head_dim, num_kv_heads=shape.kv_heads,
        final_logit_softcap=shape.final_softcap or None, attn_logits_soft_cap=shape.attention_softcap or None,
        use_post_attn_norm=shape.post_norms, use_post_ffw_norm=shape.post_norms,
        sliding_window_size=shape.sliding_window or None,
        attention_types=tuple(kinds[shape.slides(i)] for i in range(shape.layers))), rngs=nnx.Rngs(0))


def gemma3(shape: ModelShape) -> Any:
    """Tunix's class for Gemma 3 at this shape."""
    from tunix.models.gemma3 import model as theirs

    return theirs.Gemma3(theirs.ModelConfig(
        num_layers=shape.layers, num_embed=shape.vocab_size, embed_dim=shape.width, hidden_dim=shape.mlp_width,
        num_heads=shape.heads, head_dim=shape.head_dim, num_kv_heads=shape.kv_heads,
        sliding_window_size=shape.sliding_window, local_base_frequency=int(shape.local_rope_theta),
        global_base_frequency=int(shape.rope_theta), global_scale_factor=shape.rope_scaling,
        param_dtype=jnp.float32), rngs=nnx.Rngs(0))


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("family", "changes"), [
    pytest.param("gemma", {"kv_heads": 2}, marks=pytest.mark.full), ("gemma", {"kv_heads": 4}),
    pytest.param("gemma2", {"query_scale": 0.0}, marks=pytest.mark.full),
    ("gemma3", {"query_scale": 0.0, "layers": 6, "sliding_pattern": 6, "rope_scaling": 8.0}),
])
def test_logits_equal_tunix(family: str, changes: dict[str, Any]) -> None:
    """Gemma 1 with both of Tunix's layouts of k and v; Gemma 2 with both caps, a window of four and its four norms;
    Gemma 3 with its norms on q and k, both rope bases and a scaled one.
    """
    shape = tiny_shape(family, **changes)
    engine = JaxEngine.open(request(shape))
    params = engine.init(1)["params"]
    draw = np.random.default_rng(2)
    layers = {name: np.asarray(x) + draw.normal(0, 0.2, x.shape).astype(np.float32)
              for name, x in params["layers"].items()}
    model = gemma3(shape) if family == "gemma3" else gemma12(shape)
    model.embedder.input_embedding.value = params[EMBEDDING]
    model.final_norm.scale.value = params[FINAL_NORM]
    for i, layer in enumerate(model.layers):
        fill(layer, {name: x[i] for name, x in layers.items()}, shape)
    tokens = draw.integers(0, shape.vocab_size, (2, 10)).astype(np.int32)
    positions = np.broadcast_to(np.arange(10, dtype=np.int32), tokens.shape)
    mask = np.broadcast_to(np.tril(np.ones((10, 10), bool)), (2, 10, 10))
    expected = np.asarray(model(jnp.asarray(tokens), jnp.asarray(positions), None, jnp.asarray(mask))[0])
    ours = our_logits(engine, params | {"layers": {name: jnp.asarray(x) for name, x in layers.items()}}, tokens)
    assert np.abs(expected).max() > 0.5
    assert np.abs(ours - expected).max() < 1e-5 * np.abs(expected).max()


def fill(layer: Any, w: dict[str, np.ndarray], shape: ModelShape) -> None:
    """Give one of Tunix's layers a layer's tensors: heads split out, matrices as [in, out]."""
    def heads(name: str, count: int) -> np.ndarray:  # [N * H, D] -> [N, D, H]
        return w[f"self_attn.{name}_proj.weight"].reshape(count, shape.head_dim, -1).transpose(0, 2, 1)

    q, k, v = heads("q", shape.heads), heads("k", shape.kv_heads), heads("v", shape.kv_heads)
    if shape.heads == shape.kv_heads:
        layer.attn.qkv_einsum.w.value = jnp.stack([q, k, v])
    else:
        layer.attn.q_einsum.w.value = jnp.asarray(q)
        layer.attn.kv_einsum.w.value = jnp.stack([k, v])
    out = w["self_attn.o_proj.weight"].reshape(-1, shape.heads, shape.head_dim).transpose(1, 2, 0)
    layer.attn.attn_vec_einsum.w.value = jnp.asarray(out)
    layer.pre_attention_norm.scale.value = jnp.asarray(w["input_layernorm.weight"])
    before_ffw = "pre_feedforward_layernorm" if shape.post_norms else "post_attention_layernorm"
    layer.pre_ffw_norm.scale.value = jnp.asarray(w[f"{before_ffw}.weight"])
    if shape.post_norms:
        after = layer.post_attention_norm if shape.family == "gemma3" else layer.post_attn_norm
        after.scale.value = jnp.asarray(w["post_attention_layernorm.weight"])
        layer.post_ffw_norm.scale.value = jnp.asarray(w["post_feedforward_layernorm.weight"])
    layer.mlp.gate_proj.kernel.value = jnp.asarray(w["mlp.gate_proj.weight"].T)
    layer.mlp.up_proj.kernel.value = jnp.asarray(w["mlp.up_proj.weight"].T)
    layer.mlp.down_proj.kernel.value = jnp.asarray(w["mlp.down_proj.weight"].T)
    if shape.qk_norm:
        layer.attn._query_norm.scale.value = jnp.asarray(w["self_attn.q_norm.weight"])
        layer.attn._key_norm.scale.value = jnp.asarray(w["self_attn.k_norm.weight"])
