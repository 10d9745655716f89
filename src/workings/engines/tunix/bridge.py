"""Weights of the JAX engine as weights of Tunix's models, and back, bit for bit."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from flax import nnx

from workings.engines.jax.params_tree import Params
from workings.engines.tunix.trainer import model_class
from workings.errors import RequestError
from workings.models.family import EMBEDDING, FINAL_NORM
from workings.models.shape import ModelShape

Place = tuple[str | int, ...]
"""Path of a tensor in Tunix's tree, e.g. ``("layers", 0, "mlp", "up_proj", "kernel")``."""
OUTER: dict[str, Place] = {EMBEDDING: ("embedder", "input_embedding"), FINAL_NORM: ("final_norm", "scale")}
_MATRICES = {f"mlp.{name}_proj.weight": ("mlp", f"{name}_proj", "kernel") for name in ("gate", "up", "down")}


def _norms(shape: ModelShape) -> dict[str, Place]:
    """Name of a layer's norm in Hugging Face's files -> its path in a layer of Tunix's model."""
    paths: dict[str, Place] = {"input_layernorm.weight": ("pre_attention_norm", "scale")}
    if shape.post_norms:
        after_attention = "post_attention_norm" if shape.family == "gemma3" else "post_attn_norm"
        paths |= {"post_attention_layernorm.weight": (after_attention, "scale"),
                  "pre_feedforward_layernorm.weight": ("pre_ffw_norm", "scale"),
                  "post_feedforward_layernorm.weight": ("post_ffw_norm", "scale")}
    else:
        paths["post_attention_layernorm.weight"] = ("pre_ffw_norm", "scale")
    if shape.qk_norm:
        paths |= {"self_attn.q_norm.weight": ("attn", "_query_norm", "scale"),
                  "self_attn.k_norm.weight": ("attn", "_key_norm", "scale")}
    return paths


def _to_layer(w: Mapping[str, jax.Array], shape: ModelShape) -> dict[Place, jax.Array]:
    """One layer's weights by their paths in a layer of Tunix's model."""
    def heads(name: str, count: int) -> jax.Array:  # [N * H, D] -> [N, D, H]
        return w[f"self_attn.{name}_proj.weight"].reshape(count, shape.head_dim, shape.width).transpose(0, 2, 1)

    q, k, v = heads("q", shape.heads), heads("k", shape.kv_heads), heads("v", shape.kv_heads)
    arrays: dict[Place, jax.Array] = {path: w[name] for name, path in _norms(shape).items()}
    arrays |= {path: w[name].T for name, path in _MATRICES.items()}
    if shape.heads == shape.kv_heads:
        arrays["attn", "qkv_einsum", "w"] = jnp.stack([q, k, v])
    else:
        arrays["attn", "q_einsum", "w"] = q
        arrays["attn", "kv_einsum", "w"] = jnp.stack([k, v])
    out = w["self_attn.o_proj.weight"].reshape(shape.width, shape.heads, shape.head_dim)
    arrays["attn", "attn_vec_einsum", "w"] = out.transpose(1, 2, 0)
    return arrays


def to_tunix(params: Mapping[str, Any], shape: ModelShape) -> dict[Place, jax.Array]:
    """Our tree (`workings.engines.jax.model`) as path -> array of Tunix's model."""
    arrays = {path: params[name] for name, path in OUTER.items()}
    # `from_tunix` transposes this function. The transpose of a split joins; that of an index adds, which loses -0.
    unstacked = {name: jax.lax.split(x, (1,) * shape.layers) for name, x in params["layers"].items()}
    for i in range(shape.layers):
        layer = _to_layer({name: parts[i].squeeze(0) for name, parts in unstacked.items()}, shape)
        arrays |= {("layers", i, *path): x for path, x in layer.items()}
    return arrays


def from_tunix(arrays: Mapping[Place, jax.Array], shape: ModelShape, like: Params) -> Params:
    """The inverse of `to_tunix`, bit for bit; ``like``: a tree of the result's shapes and dtypes."""
    # `to_tunix` permutes numbers, and the inverse of a permutation is its transpose.
    params: Params = jax.linear_transpose(partial(to_tunix, shape=shape), like)(dict(arrays))[0]
    return params


def tunix_model(params: Params, shape: ModelShape) -> nnx.Module:
    """Tunix's own model with the JAX engine's weights. Raises `RequestError` as `check_shape`."""
    graph, state = nnx.split(nnx.eval_shape(model_class(shape, params[EMBEDDING].dtype)))
    return nnx.merge(graph, filled(state, to_tunix(params, shape)))


def filled(state: Any, arrays: dict[Place, jax.Array]) -> Any:
    """An nnx state with these arrays in place of those in ``state``. Raises `RequestError` if their shapes differ."""
    variables = dict(nnx.to_flat_state(state))
    expected = {path: variable.get_value().shape for path, variable in variables.items()}
    wrong = [".".join(map(str, path)) for path in expected.keys() | arrays.keys()
             if path not in expected or path not in arrays or expected[path] != arrays[path].shape]
    if wrong:
        raise RequestError(f"Tunix's model does not have tensors like these: {', '.join(sorted(wrong)[:5])}",
                           "the same tensors in both")
    return nnx.from_flat_state([(path, variable.replace(arrays[path])) for path, variable in variables.items()])
