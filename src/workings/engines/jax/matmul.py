"""The two products with weights whose derivatives are written by hand, because the automatic ones are slow on a CPU."""

from typing import Any

import jax
import jax.numpy as jnp

SMALL_VOCABULARY = 1024
"""Up to this size the embedding's gradient is a product with a one-hot matrix; above, a scatter."""


@jax.custom_vjp
def matmul(x: jax.Array, weight: jax.Array) -> jax.Array:
    """``[..., out]`` from x ``[..., in]`` and a weight ``[out, in]``."""
    return _product(x, weight)


def _product(x: jax.Array, weight: jax.Array) -> jax.Array:
    return jnp.einsum("...i,oi->...o", x, weight)


Residuals = tuple[jax.Array | None, jax.Array | None]


def _matmul_forward(x: Any, weight: Any) -> tuple[jax.Array, Residuals]:
    # A frozen weight has no gradient, so nothing is kept for it.
    kept = (x.value if weight.perturbed else None, weight.value if x.perturbed else None)
    return _product(x.value, weight.value), kept  # not `matmul`: remat policies look for products, not for its name


def _matmul_backward(residuals: Residuals, dy: jax.Array) -> Residuals:
    x, weight = residuals
    dx = None if weight is None else jnp.einsum("...o,oi->...i", dy, weight)
    if x is None:
        return dx, None
    rows = tuple(range(x.ndim - 1))
    # x comes first: the compiler for CPUs transposes the left operand, element by element together with what
    # produced it. x exists already, dy is usually the end of a long chain (measured: the whole backward took 1.7 x).
    return dx, jax.lax.dot_general(x, dy, ((rows, rows), ((), ()))).T


matmul.defvjp(_matmul_forward, _matmul_backward, symbolic_zeros=True)


@jax.custom_vjp
def lookup(table: jax.Array, index: jax.Array) -> jax.Array:
    """Rows of ``table`` ``[V, D]`` by ``index`` ``[...]``: ``[..., D]``."""
    return jnp.take(table, index, axis=0, mode="clip")


def _lookup_forward(table: jax.Array, index: jax.Array) -> tuple[jax.Array, tuple[jax.Array, jax.Array]]:
    return lookup(table, index), (index, table)


def _lookup_backward(kept: tuple[jax.Array, jax.Array], dy: jax.Array) -> tuple[jax.Array, None]:
    index, table = kept
    if table.shape[0] > SMALL_VOCABULARY:
        # Gradients of a token that occurs often are added up in the table's own number format.
        return jnp.zeros_like(table).at[index].add(dy.astype(table.dtype), mode="drop"), None
    hits = jax.nn.one_hot(index.reshape(-1), table.shape[0], dtype=dy.dtype)
    # By default an accelerator may round float32 factors to fewer bits, and this is a plain sum of gradients.
    rows = jnp.einsum("rv,rd->vd", hits, dy.reshape(-1, dy.shape[-1]), precision="highest")
    return rows.astype(table.dtype), None


lookup.defvjp(_lookup_forward, _lookup_backward)
