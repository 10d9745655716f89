"""A linear layer of the decoder: a weight in full or in four bits, maybe with a bias and an adapter.

Its tensors by name: ``weight`` ``[out, in]`` or the two of `workings.engines.jax.nf4`, ``bias`` ``[out]``,
``lora_A.weight`` ``[r, in]``, ``lora_B.weight`` ``[out, r]``, and ``scale`` of the adapter (a scalar).

Derivatives of products with weights are written by hand, because the automatic ones are slow on a CPU.
"""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax.nf4 import ABSMAX, CODES, dequantize
from workings.engines.jax.sharding import NF4_TENSORS, Layout


@jax.custom_vjp
def matmul(x: jax.Array, weight: jax.Array) -> jax.Array:
    """The product ``x @ weight.T`` ``[..., out]`` of x ``[..., in]`` and a weight ``[out, in]``."""
    return jnp.einsum("...i,oi->...o", x, weight)


Residuals = tuple[jax.Array | None, jax.Array | None]


def _matmul_forward(x: Any, weight: Any) -> tuple[jax.Array, Residuals]:
    # Backward needs x for the gradient of the weight, and the weight for that of x.
    kept = (x.value if weight.perturbed else None, weight.value if x.perturbed else None)
    # Not `matmul`: remat policies look for plain products.
    return jnp.einsum("...i,oi->...o", x.value, weight.value), kept


def _matmul_backward(residuals: Residuals, dy: jax.Array) -> Residuals:
    x, weight = residuals
    dx = None if weight is None else jnp.einsum("...o,oi->...i", dy, weight)
    if x is None:
        return dx, None
    rows = tuple(range(x.ndim - 1))
    # The compiler for CPUs transposes the left operand, which is slow for dy (measured: all of backward took 1.7 x).
    return dx, jax.lax.dot_general(x, dy, ((rows, rows), ((), ()))).T


matmul.defvjp(_matmul_forward, _matmul_backward, symbolic_zeros=True)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def frozen_matmul(layout: Layout, name: str, inner: int, x: jax.Array, codes: jax.Array,
                  scales: jax.Array) -> jax.Array:
    """The product ``[..., out]`` of x ``[..., inner]`` and the frozen 4-bit matrix of the projection ``name``.

    Devices gather the codes, and backward keeps them, so that the matrix exists in full only while it is used.
    """
    return _frozen_forward(layout, name, inner, x, codes, scales)[0]


def _frozen_forward(layout: Layout, name: str, inner: int, x: jax.Array, codes: jax.Array,
                    scales: jax.Array) -> tuple[jax.Array, Any]:
    y = jnp.einsum("...i,io->...o", x, _dequantized(layout, name, inner, codes, scales, x.dtype))
    return y, (codes, scales)


def _frozen_backward(layout: Layout, name: str, inner: int, kept: Any, dy: jax.Array) -> tuple[jax.Array, None, None]:
    codes, scales = kept
    return jnp.einsum("...o,io->...i", dy, _dequantized(layout, name, inner, codes, scales, dy.dtype)), None, None


frozen_matmul.defvjp(_frozen_forward, _frozen_backward)


def _dequantized(layout: Layout, name: str, inner: int, codes: jax.Array, scales: jax.Array, dtype: Any) -> jax.Array:
    return dequantize(layout.without_fsdp(f"{name}.{CODES}", codes), layout.without_fsdp(f"{name}.{ABSMAX}", scales),
                      inner, dtype)


Tensors = dict[str, jax.Array]
ADAPTER_A, ADAPTER_B = ADAPTER = ("lora_A.weight", "lora_B.weight")
SCALE = "lora.scale"
"""Name of the stacked scale of all adapters among a layer's tensors."""
DROPOUT_KEY, DROPOUT_RATE = "dropout_key", "dropout_rate"
"""Names of tensors of a projection in a training step: random key of its adapter's dropout, and the share to drop."""


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
    """The tensors of a projection, with a 4-bit matrix replaced by ``weight`` ``[out, inner]``."""
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
    if ADAPTER_A in p:
        y = y + p["scale"] * matmul(matmul(dropped(x, p), p[ADAPTER_A]), p[ADAPTER_B])
    return y


def dropped(x: jax.Array, p: Tensors) -> jax.Array:
    """An adapter's input after dropout, as in peft: a random part is 0, the rest is divided by the share kept."""
    if DROPOUT_KEY not in p:
        return x
    keep = 1 - p[DROPOUT_RATE]
    return jnp.where(jax.random.bernoulli(p[DROPOUT_KEY], keep, x.shape), (x / keep).astype(x.dtype), 0)
