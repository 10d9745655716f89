"""A linear layer of the decoder: its weight, whole or quantized, with a bias and an adapter if there are any.

Its tensors, by their names below the projection's: ``weight`` ``[out, in]`` or the two of a `FrozenFormat`,
``bias`` ``[out]``, ``lora_A.weight`` ``[r, in]``, ``lora_B.weight`` ``[out, r]``, ``scale`` of the adapter (a scalar).
"""

from typing import Any

import jax

from workings.engines.jax.frozen_matrix import STORED, format_of, frozen_matmul
from workings.engines.jax.matmul import matmul
from workings.engines.jax.sharding import Layout

Tensors = dict[str, jax.Array]
ADAPTER_A, ADAPTER_B = ADAPTER = ("lora_A.weight", "lora_B.weight")
SCALE = "lora.scale"
"""Name of the stacked scale of all adapters among a layer's tensors."""


def is_adapter(name: str) -> bool:
    """Whether a tensor belongs to an adapter."""
    return name.endswith(ADAPTER)


def projection(layer: Tensors, name: str) -> Tensors:
    """The tensors of one projection of a layer."""
    tensors = {full.removeprefix(f"{name}."): x for full, x in layer.items() if full.startswith(f"{name}.")}
    return tensors | {"scale": layer[SCALE]} if ADAPTER_A in tensors else tensors


def cast(tensors: Tensors, dtype: Any) -> Tensors:
    """The tensors in the dtype of the products; quantized tensors stay as they are."""
    return {key: x if key in STORED else x.astype(dtype) for key, x in tensors.items()}


def dense(tensors: Tensors, inner: int, dtype: Any) -> Tensors:
    """The projection with its weight ``[out, inner]`` dequantized, if it was quantized."""
    stored = format_of(tensors)
    if stored is None:
        return tensors
    rest = {key: x for key, x in tensors.items() if key not in STORED}
    return rest | {"weight": stored.dequantize(tensors[stored.codes], tensors[stored.scales], inner, dtype).T}


def project(x: jax.Array, tensors: Tensors, name: str, layout: Layout) -> jax.Array:
    """``[..., out]``: ``x @ W.T + b`` and, with an adapter, ``scale * x @ A.T @ B.T``, all in x's dtype."""
    p = cast(tensors, x.dtype)
    stored = format_of(p)
    if stored is None:
        y = matmul(x, p["weight"])
    else:
        y = frozen_matmul(stored, layout, name, x.shape[-1], x, p[stored.codes], p[stored.scales])
    if "bias" in p:
        y = y + p["bias"]
    return y + p["scale"] * matmul(matmul(x, p[ADAPTER_A]), p[ADAPTER_B]) if ADAPTER_A in p else y
