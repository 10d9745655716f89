"""A linear layer of the decoder: its weight, whole or quantized, with a bias and an adapter if there are any.

Its tensors, by their names below the projection's: ``weight`` ``[out, in]`` or the two of `workings.engines.jax.nf4`,
``bias`` ``[out]``, ``lora_A.weight`` ``[r, in]``, ``lora_B.weight`` ``[out, r]``, ``scale`` of the adapter (a scalar).
"""

from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax.frozen_matrix import frozen_matmul
from workings.engines.jax.matmul import matmul
from workings.engines.jax.nf4 import ABSMAX, CODES, dequantize
from workings.engines.jax.sharding import NF4_TENSORS, Layout

Tensors = dict[str, jax.Array]
ADAPTER_A, ADAPTER_B = ADAPTER = ("lora_A.weight", "lora_B.weight")
SCALE = "lora.scale"
"""Name of the stacked scale of all adapters among a layer's tensors."""
DROPOUT_KEY, DROPOUT_RATE = "dropout_key", "dropout_rate"
"""Names below a projection: random key of its adapter's dropout, and the share that is dropped. Only the weights of a
training step have them (`workings.engines.jax.lora.dropout_tensors`), so nothing else drops anything."""


def is_adapter(name: str) -> bool:
    """Whether a tensor belongs to an adapter."""
    return name.endswith(ADAPTER)


def projection(layer: Tensors, name: str) -> Tensors:
    """The tensors of one projection of a layer."""
    tensors = {full.removeprefix(f"{name}."): x for full, x in layer.items() if full.startswith(f"{name}.")}
    return tensors | {"scale": layer[SCALE]} if ADAPTER_A in tensors else tensors


def cast(tensors: Tensors, dtype: Any) -> Tensors:
    """The tensors in the dtype of the products; quantized tensors and dropout stay as they are."""
    kept = *NF4_TENSORS, DROPOUT_KEY, DROPOUT_RATE
    return {key: x if key in kept else x.astype(dtype) for key, x in tensors.items()}


def dense(tensors: Tensors, inner: int, dtype: Any) -> Tensors:
    """The projection with its weight ``[out, inner]`` dequantized, if it was quantized."""
    if CODES not in tensors:
        return tensors
    rest = {key: x for key, x in tensors.items() if key not in NF4_TENSORS}
    return rest | {"weight": dequantize(tensors[CODES], tensors[ABSMAX], inner, dtype).T}


def project(x: jax.Array, tensors: Tensors, name: str, layout: Layout) -> jax.Array:
    """``[..., out]``: ``x @ W.T + b`` and, with an adapter, ``scale * x @ A.T @ B.T``, all in x's dtype."""
    p = cast(tensors, x.dtype)
    if CODES in p:
        y = frozen_matmul(layout, name, x.shape[-1], x, p[CODES], p[ABSMAX])
    else:
        y = matmul(x, p["weight"])
    if "bias" in p:
        y = y + p["bias"]
    return y + p["scale"] * matmul(matmul(dropped(x, p), p[ADAPTER_A]), p[ADAPTER_B]) if ADAPTER_A in p else y


def dropped(x: jax.Array, p: Tensors) -> jax.Array:
    """An adapter's input after dropout, as in peft: a random part is 0, the rest divided by the share that is kept."""
    if DROPOUT_KEY not in p:
        return x
    keep = 1 - p[DROPOUT_RATE]
    return jnp.where(jax.random.bernoulli(p[DROPOUT_KEY], keep, x.shape), (x / keep).astype(x.dtype), 0)
