"""One linear layer of the decoder and what may stand in its weight's place or beside it: a bias, 4 bits, an adapter.

Its tensors, by their names below the projection's: ``weight`` ``[out, in]`` or ``weight.nf4`` and ``weight.absmax``,
``bias`` ``[out]``, ``lora_A.weight`` ``[r, in]``, ``lora_B.weight`` ``[out, r]``, ``scale`` of the adapter (a scalar).
"""

from typing import Any

import jax

from workings.engines.jax.matmul import matmul
from workings.engines.jax.nf4 import ABSMAX, CODES, dequantize, nf4_matmul
from workings.engines.jax.sharding import Layout

Tensors = dict[str, jax.Array]
ADAPTER_A, ADAPTER_B = ADAPTER = ("lora_A.weight", "lora_B.weight")
SCALE = "lora.scale"
"""Name of the stacked ``alpha / rank`` of all adapters among a layer's tensors."""


def is_adapter(name: str) -> bool:
    """Whether a tensor belongs to an adapter."""
    return name.endswith(ADAPTER)


def projection(layer: Tensors, name: str) -> Tensors:
    """The tensors of one projection of a layer."""
    found = {full.removeprefix(f"{name}."): x for full, x in layer.items() if full.startswith(f"{name}.")}
    return found | {"scale": layer[SCALE]} if ADAPTER_A in found else found


def cast(tensors: Tensors, dtype: Any) -> Tensors:
    """Everything that takes part in products in the dtype of the products; 4-bit storage stays what it is."""
    return {key: x if key in (CODES, ABSMAX) else x.astype(dtype) for key, x in tensors.items()}


def dense(tensors: Tensors, inner: int, dtype: Any) -> Tensors:
    """The same projection with its weight ``[out, inner]`` in full, where it was stored in 4 bits."""
    if CODES not in tensors:
        return tensors
    rest = {key: x for key, x in tensors.items() if key not in (CODES, ABSMAX)}
    return rest | {"weight": dequantize(tensors[CODES], tensors[ABSMAX], inner, dtype).T}


def project(x: jax.Array, tensors: Tensors, name: str, layout: Layout) -> jax.Array:
    """``[..., out]``: ``x @ W.T + b`` and, with an adapter, ``scale * x @ A.T @ B.T``, all in x's dtype."""
    p = cast(tensors, x.dtype)
    if CODES in p:
        y = nf4_matmul(layout, name, x, p[CODES], p[ABSMAX])
    else:
        y = matmul(x, p["weight"])
    if "bias" in p:
        y = y + p["bias"]
    return y + p["scale"] * matmul(matmul(x, p[ADAPTER_A]), p[ADAPTER_B]) if ADAPTER_A in p else y
