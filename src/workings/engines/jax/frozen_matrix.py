"""Frozen matrices in fewer bits: the formats that projections may be stored in, and the product with such a matrix."""

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.config.method import FrozenBits
from workings.engines.jax import int8, nf4
from workings.engines.jax.sharding import Layout


@dataclass(frozen=True)
class FrozenFormat:
    """Storage format of a frozen matrix: two tensors instead of its ``weight``."""

    codes: str
    """Name of the tensor with the elements, below the projection's."""
    scales: str
    """Name of the tensor with their float32 scales."""
    dtype: Any
    """Number format of the codes."""
    stored_shapes: Callable[[tuple[int, ...]], tuple[tuple[int, ...], tuple[int, ...]]]
    quantize: Callable[..., tuple[Any, Any]]
    dequantize: Callable[[jax.Array, jax.Array, int, Any], jax.Array]
    """``[in, out]`` from codes, scales, the whole matrix's ``in`` and a dtype."""


NF4 = FrozenFormat(nf4.CODES, nf4.ABSMAX, np.uint8, nf4.stored_shapes, nf4.quantize, nf4.dequantize)
INT8 = FrozenFormat(int8.CODES, int8.ABSMAX, np.int8, int8.stored_shapes, int8.quantize, int8.dequantize)
FORMATS: dict[FrozenBits, FrozenFormat] = {"nf4": NF4, "int8": INT8}
STORED = frozenset(name for each in FORMATS.values() for name in (each.codes, each.scales))
"""Names of the tensors that must be dequantized before products."""
ELEMENTS = ("weight", *(each.codes for each in FORMATS.values()))
"""Names of the tensor with a projection's elements, in any format."""


def format_of(names: Collection[str]) -> FrozenFormat | None:
    """The format of a projection with tensors of these names; None for one whose weight is an array of numbers."""
    return next((each for each in FORMATS.values() if each.codes in names), None)


@partial(jax.custom_vjp, nondiff_argnums=(0, 1, 2, 3))
def frozen_matmul(stored: FrozenFormat, layout: Layout, name: str, inner: int, x: jax.Array, codes: jax.Array,
                  scales: jax.Array) -> jax.Array:
    """``[..., out]`` from x ``[..., inner]`` and the frozen matrix of the projection of this name.

    Backward keeps the stored bits and dequantizes again, so the matrix exists in full only while it is used; on several
    devices it is these bits that are gathered.
    """
    return _product(stored, layout, name, inner, x, codes, scales)


def _product(stored: FrozenFormat, layout: Layout, name: str, inner: int, x: jax.Array, codes: jax.Array,
             scales: jax.Array) -> jax.Array:
    # The compiler fuses dequantizing into the product where it can; else the matrix lives for this product only.
    return jnp.einsum("...i,io->...o", x, _gathered(stored, layout, name, inner, codes, scales, x.dtype))


def _forward(stored: FrozenFormat, layout: Layout, name: str, inner: int, x: jax.Array, codes: jax.Array,
             scales: jax.Array) -> tuple[jax.Array, Any]:
    # No x is kept: only a gradient of the matrix would need it, and the matrix is frozen.
    return _product(stored, layout, name, inner, x, codes, scales), (codes, scales)


def _backward(stored: FrozenFormat, layout: Layout, name: str, inner: int, kept: Any,
              dy: jax.Array) -> tuple[jax.Array, None, None]:
    codes, scales = kept
    # Dequantized a second time: the work is small compared to the product, and keeping it would undo the saving.
    matrix = _gathered(stored, layout, name, inner, codes, scales, dy.dtype)
    return jnp.einsum("...o,io->...i", dy, matrix), None, None


frozen_matmul.defvjp(_forward, _backward)


def _gathered(stored: FrozenFormat, layout: Layout, name: str, inner: int, codes: jax.Array, scales: jax.Array,
              dtype: Any) -> jax.Array:
    # Gathered before codes become numbers; after that a collective would move two or four bytes an element.
    gathered = [layout.without_fsdp(f"{name}.{key}", x) for key, x in ((stored.codes, codes), (stored.scales, scales))]
    return stored.dequantize(gathered[0], gathered[1], inner, dtype)
