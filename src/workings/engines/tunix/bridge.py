"""Between our state and Tunix's: weights both ways, bit for bit."""

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

Path = tuple[str | int, ...]
"""Path of a tensor in Tunix's tree, e.g. ``("layers", 0, "mlp", "up_proj", "kernel")``."""
OUTER: dict[str, Path] = {EMBEDDING: ("embedder", "input_embedding"), FINAL_NORM: ("final_norm", "scale")}
_MATRICES = {f"mlp.{name}_proj.weight": ("mlp", f"{name}_proj", "kernel") for name in ("gate", "up", "down")}


def _norms(shape: ModelShape) -> dict[str, Path]:
    """Norm -> its place in one of Tunix's layers. Gemma 1 has Hugging Face's second norm before the feed-forward."""
    paths: dict[str, Path] = {"input_layernorm.weight": ("pre_attention_norm", "scale")}
    if shape.post_norms:
        # Tunix's Gemma 3 has another name for this norm than its Gemma 2.
        after = "post_attention_norm" if shape.family == "gemma3" else "post_attn_norm"
        paths |= {"post_attention_layernorm.weight": (after, "scale"),
                  "pre_feedforward_layernorm.weight": ("pre_ffw_norm", "scale"),
                  "post_feedforward_layernorm.weight": ("post_ffw_norm", "scale")}
    else:
        paths |= {"post_attention_layernorm.weight": ("pre_ffw_norm", "scale")}
    if shape.qk_norm:
        paths |= {f"self_attn.{letter}_norm.weight": ("attn", f"_{word}_norm", "scale")
                  for letter, word in (("q", "query"), ("k", "key"))}
    return paths


def _to_layer(w: Mapping[str, jax.Array], shape: ModelShape) -> dict[Path, jax.Array]:
    def heads(name: str, count: int) -> jax.Array:  # [N * H, D] -> [N, D, H]
        return w[f"self_attn.{name}_proj.weight"].reshape(count, shape.head_dim, shape.width).transpose(0, 2, 1)

    q, k, v = heads("q", shape.heads), heads("k", shape.kv_heads), heads("v", shape.kv_heads)
    arrays: dict[Path, jax.Array] = {path: w[name] for name, path in _norms(shape).items()}
    arrays |= {path: w[name].T for name, path in _MATRICES.items()}
    # Tunix has one tensor for all three where the numbers of heads agree, otherwise one for queries and one for the
    # rest.
    if shape.heads == shape.kv_heads:
        arrays["attn", "qkv_einsum", "w"] = jnp.stack([q, k, v])
    else:
        arrays |= {("attn", "q_einsum", "w"): q, ("attn", "kv_einsum", "w"): jnp.stack([k, v])}
    out = w["self_attn.o_proj.weight"].reshape(shape.width, shape.heads, shape.head_dim)
    arrays["attn", "attn_vec_einsum", "w"] = out.transpose(1, 2, 0)
    return arrays


def to_tunix(params: Mapping[str, Any], shape: ModelShape) -> dict[Path, jax.Array]:
    """Our tree (`workings.engines.jax.model`) as path -> array of Tunix's model."""
    arrays = {path: params[name] for name, path in OUTER.items()}
    # Splitting, unlike indexing, has joining for its transpose, which `from_tunix` needs: a sum loses the sign of zero.
    unstacked = {name: jax.lax.split(x, (1,) * shape.layers) for name, x in params["layers"].items()}
    for i in range(shape.layers):
        layer = _to_layer({name: parts[i].squeeze(0) for name, parts in unstacked.items()}, shape)
        arrays |= {("layers", i, *path): x for path, x in layer.items()}
    return arrays


def from_tunix(arrays: Mapping[Path, jax.Array], shape: ModelShape, like: Params) -> Params:
    """The inverse of `to_tunix`, bit for bit; ``like``: a tree of the result's shapes and dtypes."""
    # Tunix's arrays hold ours in another order, and the inverse of a permutation is its transpose.
    params: Params = jax.linear_transpose(partial(to_tunix, shape=shape), like)(dict(arrays))[0]
    return params


def tunix_model(params: Params, shape: ModelShape) -> nnx.Module:
    """Tunix's own model with our weights, bit for bit. Raises as `check_shape`."""
    graph, state = nnx.split(nnx.eval_shape(model_class(shape, params[EMBEDDING].dtype)))
    return nnx.merge(graph, filled(state, to_tunix(params, shape)))


def filled(state: Any, arrays: dict[Path, jax.Array]) -> Any:
    """An nnx state with these arrays in place of those in ``state``. Raises `RequestError` where they do not match."""
    there = dict(nnx.to_flat_state(state))
    # nnx would take an array of another shape and fail much later, inside a step.
    wrong = [".".join(map(str, path)) for path in there.keys() | arrays.keys() if path not in there
             or path not in arrays or there[path].get_value().shape != arrays[path].shape]
    if wrong:
        raise RequestError(f"Tunix's model does not have tensors like these: {', '.join(sorted(wrong)[:5])}",
                           "the same tensors in both")
    return nnx.from_flat_state([(path, variable.replace(arrays[path])) for path, variable in there.items()])
