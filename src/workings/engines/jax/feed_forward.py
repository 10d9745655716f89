"""The feed-forward block, whole or over chunks of positions.

Its inner activations are the widest of a layer (Gemma-2B: eight times the model's width, and backward needs five of
them), so after the logits they decide the peak. In chunks, each device gathers a layer's three matrices once, walks
over its own rows, and the gradients leave in one reduction.
"""

from collections.abc import Callable
from functools import partial

import jax

from workings.engines.jax.nf4 import CODES
from workings.engines.jax.projection import Tensors, dense, project
from workings.engines.jax.sharding import FSDP, TP, Layout, P
from workings.models.shape import ModelShape

CHUNK = 2048
"""Least positions of one device per chunk: enough rows to keep a matrix unit busy."""
MAX_CHUNKS = 8
"""Most chunks of one device: a matrix's bfloat16 gradient is a sum over chunks, and must not lose small terms."""
NAMES = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


def gated(x: jax.Array, three: list[Tensors], shape: ModelShape, layout: Layout,
          keep: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """``down(activation(gate(x)) * up(x))`` for x ``[B, S, D]`` and the projections gate, up, down.

    ``keep`` constrains where inner activations are.
    """
    gate, up, down = (partial(project, tensors=tensors, name=name, layout=layout)
                      for name, tensors in zip(NAMES, three, strict=True))
    raw = keep(gate(x))
    # Gemma's gelu is the form with tanh (`gelu_pytorch_tanh` in its configuration).
    active = jax.nn.silu(raw) if shape.activation == "silu" else jax.nn.gelu(raw, approximate=True)
    return down(keep(active * up(x)))


def chunk_count(positions: int) -> int:
    """Into how many equal chunks a device's positions are cut; 1 where they are few or do not divide."""
    wanted = min(MAX_CHUNKS, positions // CHUNK)
    # The largest number that divides: a shorter last chunk would need padding, or a second program in the loop.
    return next((count for count in range(wanted, 1, -1) if positions % count == 0), 1)


def chunked(x: jax.Array, three: list[Tensors], shape: ModelShape, layout: Layout, inner: int) -> jax.Array:
    """`gated` for ``[B, S, D]`` split by row over the mesh, inner activations recomputed chunk by chunk in backward.

    ``inner`` is the layer's feed-forward width.
    """
    specs = [{key: layout.spec(f"{name}.{key}", w.shape) for key, w in tensors.items()}
             for name, tensors in zip(NAMES, three, strict=True)]
    # Written for one device, so that gathers are outside of the loop: once a layer and not once a chunk.
    run = partial(_local, shape, layout, specs, inner)
    rows = P(layout.row_axes)
    return layout.shard_map(run, (rows, specs), rows)(x, three)


def _local(shape: ModelShape, layout: Layout, specs: list[dict[str, P]], inner: int, x: jax.Array,
           split: list[Tensors]) -> jax.Array:
    """The feed-forward of one device's rows; its matrices are gathered over ``fsdp`` and stay split over ``tp``."""
    sizes = shape.width, shape.width, inner
    three = [dense({key: _gathered(w, spec[key]) for key, w in tensors.items()}, size, x.dtype)
             for tensors, spec, size in zip(split, specs, sizes, strict=True)]
    flat = x.reshape(-1, x.shape[-1])
    count = chunk_count(flat.shape[0])

    # Of a chunk only its rows are kept, so the inner activations of one chunk exist at a time.
    @jax.checkpoint
    def one(rows: jax.Array) -> jax.Array:
        # Inside `shard_map` an array is one device's own, and there is nothing to constrain.
        return gated(rows, three, shape, layout, lambda x: x)

    out = jax.lax.map(one, flat.reshape(count, -1, flat.shape[1])).reshape(x.shape)
    # Split over tp, each device has the sum over its own part of the inner width.
    down = next(spec for key, spec in specs[2].items() if key in ("weight", CODES))
    return jax.lax.psum(out, TP) if TP in down else out


def _gathered(w: jax.Array, spec: P) -> jax.Array:
    """A matrix whole along the axis that ``fsdp`` splits, if it does."""
    for axis, names in enumerate(spec):
        if FSDP in (names if isinstance(names, tuple) else (names,)):
            # Its derivative is a reduce-scatter, by which each device gets the sum for its own part of the matrix.
            return jax.lax.all_gather(w, FSDP, axis=axis, tiled=True)
    return w
