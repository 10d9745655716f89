"""The feed-forward block, whole or over chunks of positions.

Its inner activations are the widest of a layer (Gemma-2B: eight times the model's width, and backward needs five of
them), so after the logits they decide the peak. In chunks, each device gathers a layer's three matrices once, walks
over its own rows, and the gradients leave in one reduction.
"""

from collections.abc import Callable
from functools import partial

import jax

from workings.engines.jax.matmul import matmul
from workings.engines.jax.sharding import FSDP, TP, Layout, P
from workings.models.shape import ModelShape

CHUNK = 2048
"""Least positions of one device per chunk: enough rows to keep a matrix unit busy."""
MOST_CHUNKS = 8
"""Most chunks of one device: a matrix's bfloat16 gradient is a sum over chunks, and must not lose small terms."""
NAMES = ("gate", "up", "down")

def gated(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array, shape: ModelShape,
          layout: Layout) -> jax.Array:
    """``down(activation(gate(x)) * up(x))`` for x ``[B, S, D]``."""
    return _gated(x, gate, up, down, shape, layout.inner)


def _gated(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array, shape: ModelShape,
           keep: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """The block itself; ``keep`` constrains where inner activations lie."""
    raw = keep(matmul(x, gate))
    active = jax.nn.silu(raw) if shape.activation == "silu" else jax.nn.gelu(raw, approximate=True)
    return matmul(keep(active * matmul(x, up)), down)


def chunk_count(positions: int) -> int:
    """Into how many equal chunks a device's positions are cut; 1 where they are few or do not divide."""
    wanted = min(MOST_CHUNKS, positions // CHUNK)
    return next((count for count in range(wanted, 1, -1) if positions % count == 0), 1)


def chunked(x: jax.Array, gate: jax.Array, up: jax.Array, down: jax.Array, shape: ModelShape,
            layout: Layout) -> jax.Array:
    """`gated` for ``[B, S, D]`` split by row over the mesh, inner activations recomputed chunk by chunk in backward."""
    specs = [layout.spec(f"mlp.{name}_proj.weight", w.shape) for name, w in zip(NAMES, (gate, up, down), strict=True)]
    run = partial(_local, shape, specs)
    return jax.shard_map(run, mesh=layout.mesh, in_specs=(P(FSDP), *specs), out_specs=P(FSDP),
                         check_vma=False)(x, gate, up, down)


def _local(shape: ModelShape, specs: list[P], x: jax.Array, *weights: jax.Array) -> jax.Array:
    """One device's rows; matrices arrive split and are gathered over ``fsdp`` (over ``tp`` they stay split)."""
    gate, up, down = (_gathered(w, spec) for w, spec in zip(weights, specs, strict=True))
    flat = x.reshape(-1, x.shape[-1])
    count = chunk_count(flat.shape[0])

    @jax.checkpoint
    def one(rows: jax.Array) -> jax.Array:
        return _gated(rows, gate, up, down, shape, lambda inner: inner)

    out = jax.lax.map(one, flat.reshape(count, -1, flat.shape[1])).reshape(x.shape)
    # Split over tp, each device has the sum over its own part of the inner width.
    return jax.lax.psum(out, TP) if TP in specs[2] else out


def _gathered(w: jax.Array, spec: P) -> jax.Array:
    """A matrix whole along the axis that ``fsdp`` splits, if it does."""
    return jax.lax.all_gather(w, FSDP, axis=spec.index(FSDP), tiled=True) if FSDP in spec else w
