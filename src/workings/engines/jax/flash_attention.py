"""Flash attention on TPU by JAX's splash kernel, which skips blocks of scores that the mask leaves empty.

It supports segments, soft caps and windows. A kernel has one mask, so a model with sliding layers has two kernels.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_kernel as splash
from jax.experimental.pallas.ops.tpu.splash_attention import splash_attention_mask as masks

from workings.engines.jax.sharding import TP, Layout, P
from workings.errors import RequestError
from workings.models.shape import ModelShape

BLOCK = 512
"""Largest block of queries or keys."""
LANES = 128
"""The kernel's lengths and head sizes are multiples of this."""
CHIPS_WITHOUT = ("TPU v2", "TPU v3")
"""Chips for which the kernel does not compile ("Unsupported matmul RHS type"): it multiplies bfloat16."""


def flash_refusal(shape: ModelShape, kind: str) -> str:
    """Why the kernel does not support this model on chips of this kind; empty if it does."""
    if kind in CHIPS_WITHOUT:
        return f"the kernel does not compile for a {kind}"
    sizes = {shape.head_dim_of(i) for i in range(shape.layers)}
    return next((f"head_dim {size} is not a multiple of {LANES}" for size in sorted(sizes) if size % LANES), "")


def make_flash_attention(shape: ModelShape, layout: Layout, *, interpret: bool = False) -> Callable[..., jax.Array]:
    """An `Attention` for a model on a mesh; ``interpret``: on any device, for tests. Raises for a `flash_refusal`."""
    if refusal := flash_refusal(shape, layout.mesh.devices.flat[0].device_kind):
        raise RequestError(f"memory.attention: flash does not work here: {refusal}", "a chip and a head size that fit",
                           "memory.attention=chunked")
    # A group of query heads must be on the device of its key head, so `tp` must divide both numbers.
    numbers = {shape.heads, *(shape.kv_heads_of(i) for i in range(shape.layers))}
    heads_axis = TP if all(number % layout.shape.tp == 0 for number in numbers) else None
    sliding = any(shape.slides(i) for i in range(shape.layers))

    def attention(q: jax.Array, k: jax.Array, v: jax.Array, *, segment_ids: jax.Array, window: jax.Array,
                  slides: bool | jax.Array, scale: float, softcap: float) -> jax.Array:
        # Rows are padded at the end to a length that the kernel supports; causality hides the padding.
        row_length = q.shape[1]
        padding = ((0, 0), (0, -row_length % LANES))
        padded = [jnp.pad(x, (*padding, (0, 0), (0, 0))) for x in (q, k, v)]
        length = padded[0].shape[1]
        # The kernel does not scale scores, and it has heads before positions.
        scaled = padded if scale == 1 else [padded[0] * scale, *padded[1:]]
        queries, keys, values = (x.swapaxes(1, 2) for x in scaled)
        run = partial(_run, layout, heads_axis, queries, keys, values, jnp.pad(segment_ids, padding))
        kernel = partial(_kernel, shape.heads, length, softcap=softcap, interpret=interpret,
                         shards=layout.shape.tp if heads_axis else 1)
        causal = kernel(window=0)
        # A window as long as the row hides nothing.
        if not sliding or shape.sliding_window >= length or slides is False:
            out = run(causal)
        else:
            local = kernel(window=shape.sliding_window)
            out = run(local) if slides is True else jax.lax.cond(slides, lambda: run(local), lambda: run(causal))
        return out.swapaxes(1, 2)[:, :row_length]

    return attention


def _kernel(heads: int, length: int, *, window: int, softcap: float, interpret: bool, shards: int) -> Any:
    """A splash kernel for causal attention to the last ``window`` positions, or to all of them if it is 0."""
    mask = masks.LocalMask((length, length), (window - 1, 0), 0) if window else masks.CausalMask((length, length))
    block = next(b for b in (BLOCK, 256, LANES) if length % b == 0)
    sizes = splash.BlockSizes(block_q=block, block_kv=block, block_kv_compute=block, block_q_dkv=block,
                              block_kv_dkv=block, block_kv_dkv_compute=block, block_q_dq=block, block_kv_dq=block)
    return splash.make_splash_mha(masks.MultiHeadMask([mask] * heads), block_sizes=sizes, head_shards=shards,
                                  q_seq_shards=1, attn_logits_soft_cap=softcap or None, interpret=interpret)


def _run(layout: Layout, heads_axis: str | None, q: jax.Array, k: jax.Array, v: jax.Array, segment_ids: jax.Array,
         kernel: Any) -> jax.Array:
    """Runs the kernel on every device's own rows and heads; all arrays are ``[B, heads, S, H]``."""
    def run_rows(kernel: Any, q: jax.Array, k: jax.Array, v: jax.Array, ids: jax.Array) -> jax.Array:
        # The kernel takes one row.
        return jax.vmap(lambda q, k, v, ids: kernel(q, k, v, segment_ids=splash.SegmentIds(q=ids, kv=ids)))(
            q, k, v, ids)

    split = P(layout.row_axes, heads_axis)
    # The kernel contains arrays about the blocks of its mask, which are split like the heads.
    sharding = kernel.manual_sharding_spec(layout.sharding(heads_axis, None))
    return layout.shard_map(run_rows, (sharding, split, split, split, P(layout.row_axes)), split)(
        kernel, q, k, v, segment_ids)
