"""Int8: weights in eight bits with a scale a row, as LLM.int8 stores them (Dettmers et al., 2022), without outliers.

A matrix ``[out, in]`` keeps of every row the float32 size of its largest element, and of every element the nearest of
255 equal steps between that and its negative. Codes and scales are bitsandbytes'. Nothing but storage is in eight bits:
products are taken in the format of computation.
"""

from typing import Any

import jax
import numpy as np

STEPS = np.float32(127)
"""Codes go from minus this to this."""
CODES, ABSMAX = "weight.int8", "weight.row_absmax"
"""Names of the two tensors that replace a projection's ``weight``."""


def stored_shapes(size: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shapes of codes and scales of a matrix; scales have two axes, so that a mesh splits them as it splits codes."""
    return size, (size[0], 1)


def quantize(weight: Any, xp: Any = np) -> tuple[Any, Any]:
    """Codes (int8) and scales (float32) of a matrix ``[out, in]``: see `stored_shapes`.

    ``xp`` is ``numpy`` for arrays on the host or ``jax.numpy`` for traced ones.
    """
    wide = weight.astype(xp.float32)
    absmax = xp.abs(wide).max(-1, keepdims=True)
    # A row of zeros would divide by zero; divided by 1 all its codes are 0.
    return xp.rint(wide * (STEPS / xp.where(absmax > 0, absmax, xp.float32(1)))).astype(xp.int8), absmax


def dequantize(codes: jax.Array, absmax: jax.Array, inner: int, dtype: Any) -> jax.Array:
    """The transposed matrix ``[in, out]`` that codes and scales represent; the product is taken in float32."""
    del inner
    return (codes.astype(np.float32) * absmax * (np.float32(1) / STEPS)).astype(dtype).T
