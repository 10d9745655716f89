"""The product with a frozen matrix that is stored in four bits (`workings.engines.jax.nf4`)."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax.nf4 import ABSMAX, CODES, dequantize
from workings.engines.jax.sharding import Layout


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2))
def frozen_matmul(layout: Layout, name: str, inner: int, x: jax.Array, codes: jax.Array,
                  scales: jax.Array) -> jax.Array:
    """``[..., out]`` from x ``[..., inner]`` and the frozen matrix of the projection of this name.

    Backward keeps the stored bits and dequantizes again, so the matrix exists in full only while it is used; on several
    devices it is these bits that are gathered.
    """
    return _product(layout, name, inner, x, codes, scales)


def _product(layout: Layout, name: str, inner: int, x: jax.Array, codes: jax.Array,
             scales: jax.Array) -> jax.Array:
    # The compiler fuses dequantizing into the product where it can; else the matrix lives for this product only.
    return jnp.einsum("...i,io->...o", x, _gathered(layout, name, inner, codes, scales, x.dtype))


def _forward(layout: Layout, name: str, inner: int, x: jax.Array, codes: jax.Array,
             scales: jax.Array) -> tuple[jax.Array, Any]:
    # No x is kept: only a gradient of the matrix would need it, and the matrix is frozen.
    return _product(layout, name, inner, x, codes, scales), (codes, scales)


def _backward(layout: Layout, name: str, inner: int, kept: Any,
              dy: jax.Array) -> tuple[jax.Array, None, None]:
    codes, scales = kept
    # Dequantized a second time: the work is small compared to the product, and keeping it would undo the saving.
    matrix = _gathered(layout, name, inner, codes, scales, dy.dtype)
    return jnp.einsum("...o,io->...i", dy, matrix), None, None


frozen_matmul.defvjp(_forward, _backward)


def _gathered(layout: Layout, name: str, inner: int, codes: jax.Array, scales: jax.Array,
              dtype: Any) -> jax.Array:
    # Gathered before codes become numbers; after that a collective would move two or four bytes an element.
    gathered = [layout.without_fsdp(f"{name}.{key}", x) for key, x in ((CODES, codes), (ABSMAX, scales))]
    return dequantize(gathered[0], gathered[1], inner, dtype)
