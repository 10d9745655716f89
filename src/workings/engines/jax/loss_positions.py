"""Computes the loss at supervised positions only, which are usually a part of a row.

A program has fixed shapes, so a batch selects as many positions of each row as any row of its shape may need
(`Batch.loss_positions`). Only a CPU uses this (`memory.cpu_optimizations`): without it, full training of SmolLM2-135M
on GSM8K takes 1.19 times as long (benchmarks/LOG.md).

Shape suffixes: B rows, S positions, M loss positions of a row, which are distinct.
"""

import jax
import jax.numpy as jnp

LOSS_POSITIONS = "loss_positions"
"""Name of the array among a batch's arrays on the device."""


def select(x: jax.Array, index_BM: jax.Array) -> jax.Array:
    """``[B, M, ...]`` of x ``[B, S, ...]``."""
    return x.at[jnp.arange(len(index_BM))[:, None], index_BM].get(mode="promise_in_bounds", unique_indices=True)


def spread(x_BM: jax.Array, index_BM: jax.Array, length: int) -> jax.Array:
    """The inverse of `select`: ``[B, S]`` with S = ``length``, and 0 at other positions."""
    rows = jnp.arange(len(index_BM))[:, None]
    return jnp.zeros((len(index_BM), length), x_BM.dtype).at[rows, index_BM].set(x_BM)
