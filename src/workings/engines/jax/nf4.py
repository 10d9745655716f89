"""NF4: weights in four bits (Dettmers et al., 2023, appendix E), bitsandbytes' format without double quantization.

A matrix ``[out, in]`` is cut, row by row, into blocks of 64 elements. A block keeps the float32 size of its largest
element, and of every element the number of the nearest of sixteen levels, quantiles of a normal distribution.

Codes and scales are bitsandbytes'; their order in memory is ours, made for machines whose vectors run along the last
axis: codes ``[in / 64, 32, out]``, a byte with an element of the block's first half in its upper bits and the one 32
further in its lower, and scales ``[in / 64, out]``. Where rows are not whole blocks (only tiny models): codes
``[n, 32]`` and scales ``[n]`` over the flat matrix.
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
"""An element above the n-th limit has a code above n."""
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
    # A block of zeros would divide by zero; divided by 1 all its codes are 7, which is the level 0.
    scaled = blocks * (xp.float32(1) / xp.where(absmax > 0, absmax, xp.float32(1)))[:, None]
    codes = sum((scaled > xp.float32(limit)).astype(xp.uint8) for limit in LIMITS)
    pairs = codes[:, :BLOCK // 2] * np.uint8(16) + codes[:, BLOCK // 2:]
    if weight.shape[1] % BLOCK == 0:
        rows = (weight.shape[0], -1)
        # From `[out, in / 64, 32]` to `[in / 64, 32, out]`: the long side last, along the vectors.
        return xp.moveaxis(pairs.reshape(*rows, BLOCK // 2), 0, -1), absmax.reshape(rows).T
    return pairs, absmax


def _levels(codes: jax.Array) -> jax.Array:
    """Levels of codes by four rounds of choosing between neighbors: vector units have no table."""
    values = [jnp.float32(level) for level in LEVELS.tolist()]
    for bit in range(4):
        is_set = (codes >> bit) & 1 != 0
        values = [jnp.where(is_set, above, below) for below, above in zip(values[::2], values[1::2], strict=True)]
    return values[0]


def dequantize(codes: jax.Array, absmax: jax.Array, inner: int, dtype: Any) -> jax.Array:
    """The transposed matrix ``[in, out]`` that codes and scales represent; the product is taken in float32.

    ``inner`` is the whole matrix's ``in``; a part of one that is split over ``tp`` has fewer blocks.
    """
    number = codes.astype(jnp.int32)
    # `quantize` put the first half of a block into the high bits, so halves are joined and not interleaved.
    numbers = jnp.concatenate([number >> 4, number & 15], 1)  # [blocks, 64(, out)]
    values = (_levels(numbers) * absmax[:, None]).astype(dtype)
    return values.reshape(-1, codes.shape[-1]) if codes.ndim == 3 else values.reshape(-1, inner).T
