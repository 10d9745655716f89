"""The loss at supervised positions only: the last layer's output at other positions does not reach it.

The number of supervised positions differs from row to row and a program has fixed shapes, so a batch selects as many
positions of each row as any row of its shape may need (`Batch.loss_positions`).

For a CPU only (`memory.cpu_optimizations`): on an accelerator, a plan may be made before the rows are known. Full
training of SmolLM2-135M on rows of GSM8K takes 1.19 times as long without it, LoRA 1.02 times (benchmarks/LOG.md).

Shape suffixes: B rows, S positions, M loss positions of a row, which are distinct.
"""

import jax
import jax.numpy as jnp

LOSS_POSITIONS = "loss_positions"
"""Name of the array among a batch's arrays on the device."""


def select(x: jax.Array, index_BM: jax.Array) -> jax.Array:
    """``[B, M, ...]`` of x ``[B, S, ...]``."""
    rows = jnp.arange(len(index_BM))[:, None]
    return x.at[rows, index_BM].get(mode="promise_in_bounds", unique_indices=True)


def spread(x_BM: jax.Array, index_BM: jax.Array, length: int) -> jax.Array:
    """The inverse of `select`: ``[B, S]`` for S of ``length``, 0 at other positions."""
    rows = jnp.arange(len(index_BM))[:, None]
    return jnp.zeros((len(index_BM), length), x_BM.dtype).at[rows, index_BM].set(x_BM)
