"""The feed-forward block of a layer, for all positions at once or in chunks of positions.

Chunks save memory: the inner activations are the widest of a layer (Gemma-2B: eight times the model's width). Each
device gathers the three matrices of a layer once and walks over its own rows in chunks.
"""

from collections.abc import Callable
from functools import partial

import jax

from workings.engines.jax.nf4 import CODES
from workings.engines.jax.projection import Tensors, dense, project
from workings.engines.jax.sharding import FSDP, TP, Layout, P
from workings.models.shape import ModelShape

CHUNK = 2048
"""The least positions of one device in a chunk: enough rows to keep a matrix unit busy."""
MAX_CHUNKS = 8
"""The most chunks of one device: a matrix's bfloat16 gradient is a sum over chunks, and more would lose small terms."""
NAMES = ("mlp.gate_proj", "mlp.up_proj", "mlp.down_proj")


def gated(x: jax.Array, projections: list[Tensors], shape: ModelShape, layout: Layout,
          keep: Callable[[jax.Array], jax.Array]) -> jax.Array:
    """``down(activation(gate(x)) * up(x))`` for x ``[B, S, D]``; ``keep`` constrains shardings of inner activations."""
    gate, up, down = (partial(project, tensors=tensors, name=name, layout=layout)
                      for name, tensors in zip(NAMES, projections, strict=True))
    raw = keep(gate(x))
    # Gemma's gelu is the form with tanh (`gelu_pytorch_tanh` in its configuration).
    active = jax.nn.silu(raw) if shape.activation == "silu" else jax.nn.gelu(raw, approximate=True)
    return down(keep(active * up(x)))


def chunk_count(positions: int) -> int:
    """Number of equal chunks of a device's positions; 1 if they are few or cannot be divided."""
    wanted = min(MAX_CHUNKS, positions // CHUNK)
    return next((count for count in range(wanted, 1, -1) if positions % count == 0), 1)


def chunked(x: jax.Array, projections: list[Tensors], shape: ModelShape, layout: Layout, inner: int) -> jax.Array:
    """`gated` for x ``[B, S, D]`` split by row, in chunks that backward recomputes; ``inner``: inner width."""
    specs = [{key: layout.spec(f"{name}.{key}", w.shape) for key, w in tensors.items()}
             for name, tensors in zip(NAMES, projections, strict=True)]
    # `_local` is the program of one device: it gathers matrices before its loop over chunks.
    run = partial(_local, shape, layout, specs, inner)
    rows = P(layout.row_axes)
    return layout.shard_map(run, (rows, specs), rows)(x, projections)


def _local(shape: ModelShape, layout: Layout, specs: list[dict[str, P]], inner: int, x: jax.Array,
           split: list[Tensors]) -> jax.Array:
    """The feed-forward of one device's rows; its matrices are gathered over ``fsdp`` and stay split over ``tp``."""
    widths = shape.width, shape.width, inner  # of the inputs of gate, up and down
    projections = [dense({key: _gathered(w, spec[key]) for key, w in tensors.items()}, width, x.dtype)
                   for tensors, spec, width in zip(split, specs, widths, strict=True)]
    flat = x.reshape(-1, x.shape[-1])
    count = chunk_count(flat.shape[0])

    @jax.checkpoint
    def run_chunk(rows: jax.Array) -> jax.Array:
        # Inside `shard_map` there is no sharding to constrain.
        return gated(rows, projections, shape, layout, lambda x: x)

    out = jax.lax.map(run_chunk, flat.reshape(count, -1, flat.shape[1])).reshape(x.shape)
    # If `tp` splits the matrix, each device has the sum over its own part of the inner width.
    _, _, down = specs
    weight = down[CODES] if CODES in down else down["weight"]
    return jax.lax.psum(out, TP) if TP in weight else out


def _gathered(w: jax.Array, spec: P) -> jax.Array:
    """A matrix gathered along the axis that ``fsdp`` splits; unchanged if it splits none."""
    for axis, names in enumerate(spec):
        if FSDP in (names if isinstance(names, tuple) else (names,)):
            return jax.lax.all_gather(w, FSDP, axis=axis, tiled=True)
    return w
