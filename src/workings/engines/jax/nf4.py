"""NF4: weights in four bits, with the codes and scales of bitsandbytes, without double quantization.

A matrix ``[out, in]`` is cut, row by row, into blocks of 64 elements. A block stores a scale, the size of its largest
element (float32), and a code for each element, the number of the nearest of 16 quantiles of a normal distribution.

The order in memory is made for vectors along the last axis. Codes are ``[in / 64, 32, out]``: a byte has an element of
the block's first half in its upper four bits, and the element 32 places further in its lower ones. Scales are
``[in / 64, out]``. If rows are no whole blocks (tiny models), codes are ``[n, 32]`` and scales ``[n]``.

Source: QLoRA, https://arxiv.org/abs/2305.14314, appendix E
"""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.jax.sharding import NF4_TENSORS

BLOCK = 64
"""Elements that share one scale."""
LEVELS = np.array([
    -1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
    -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
    0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0], np.float32)
"""Values of the codes 0 to 15."""
LIMITS = ((LEVELS[1:] + LEVELS[:-1]) / np.float32(2)).tolist()
"""Limits between neighboring levels: an element above the n-th limit has a code above n."""
CODES, ABSMAX = NF4_TENSORS
"""Names of the two tensors that replace a projection's ``weight``."""


def stored_shapes(size: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of codes and scales of a matrix."""
    out, inner = size
    if inner % BLOCK == 0:
        return (inner // BLOCK, BLOCK // 2, out), (inner // BLOCK, out)
    return (out * inner // BLOCK, BLOCK // 2), (out * inner // BLOCK,)


def quantize(weight: Any, xp: Any = np) -> tuple[Any, Any]:
    """Codes (uint8, two in a byte) and scales (float32) of a matrix ``[out, in]``; ``xp``: NumPy or ``jax.numpy``."""
    blocks = weight.astype(xp.float32).reshape(-1, BLOCK)
    absmax = xp.abs(blocks).max(-1)
    # A block of zeros is divided by 1 instead of its scale.
    scaled = blocks * (xp.float32(1) / xp.where(absmax > 0, absmax, xp.float32(1)))[:, None]
    codes = sum((scaled > xp.float32(limit)).astype(xp.uint8) for limit in LIMITS)
    pairs = codes[:, :BLOCK // 2] * np.uint8(16) + codes[:, BLOCK // 2:]
    if weight.shape[1] % BLOCK == 0:
        rows = (weight.shape[0], -1)
        # From `[out, in / 64, 32]` to `[in / 64, 32, out]`.
        return xp.moveaxis(pairs.reshape(*rows, BLOCK // 2), 0, -1), absmax.reshape(rows).T
    return pairs, absmax


def _levels(codes: jax.Array) -> jax.Array:
    """Levels of codes, chosen bit by bit: vector units cannot look up a table."""
    values = [jnp.float32(level) for level in LEVELS.tolist()]
    for bit in range(4):  # leaves 8, 4, 2, and then 1 of the 16 levels
        is_set = (codes >> bit) & 1 != 0
        values = [jnp.where(is_set, above, below) for below, above in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def dequantize(codes: jax.Array, absmax: jax.Array, inner: int, dtype: Any) -> jax.Array:
    """The transposed matrix ``[in, out]``, computed in float32; ``inner``: the ``in`` of the whole matrix."""
    pairs = codes.astype(jnp.int32)
    elements = jnp.concatenate([pairs >> 4, pairs & 15], 1)  # [blocks, 64] or [blocks, 64, out]
    values = (_levels(elements) * absmax[:, None]).astype(dtype)
    return values.reshape(-1, codes.shape[-1]) if codes.ndim == 3 else values.reshape(-1, inner).T
