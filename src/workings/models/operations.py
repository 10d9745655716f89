"""Floating-point operations of a training step, from the model's shape alone. A multiplication and an addition are two.

Only matrix products count: norms, activations and the optimizer are below two percent at any size worth timing. The
formula is tested against a compiler's count of a small unrolled model; XLA's own count of a scanned model is useless,
because it counts a loop's body once.
"""

from collections.abc import Iterable
from functools import cache
from math import prod

from workings.models.shape import ModelShape
from workings.models.weights import (
    PER_LAYER_EMBEDDING,
    PER_LAYER_PROJECTION,
    layer_shapes,
    outer_shapes,
    parameter_count,
)

BACKWARD = 2
"""A product's backward is two products of its size."""


@cache
def weights_met(shape: ModelShape) -> int:
    """Weights of the layers' matrices that one token is multiplied with; of experts only those that it goes through."""
    total = 0
    for layer in range(shape.layers):
        for size in layer_shapes(shape, layer).values():
            if len(size) == 2:
                total += prod(size)
            elif len(size) == 3 and shape.experts:  # the matrices of all experts lie in one tensor
                total += prod(size) // shape.experts * shape.experts_per_token
    return total


def outer_weights_met(shape: ModelShape) -> int:
    """The same outside of the layers, without the head: the projection to per-layer embeddings, where there are any."""
    return prod(outer_shapes(shape)[PER_LAYER_PROJECTION]) if shape.per_layer_width else 0


def weights_read(shape: ModelShape) -> int:
    """Stored parameters that computing a token reads: all but per-layer embeddings and experts that it passes by."""
    table = prod(outer_shapes(shape)[PER_LAYER_EMBEDDING]) if shape.per_layer_width else 0
    experts = sum(prod(size) for layer in range(shape.layers) for size in layer_shapes(shape, layer).values()
                  if len(size) == 3)
    passed_by = experts // shape.experts * (shape.experts - shape.experts_per_token) if shape.experts else 0
    return parameter_count(shape) - table - passed_by


def projection_operations(shape: ModelShape) -> int:
    """Operations of one token's forward through the matrices of all layers."""
    return 2 * weights_met(shape)


def head_operations(shape: ModelShape) -> int:
    """Operations of one token outside of the layers: its logits, and the projection to its per-layer embeddings."""
    return 2 * (shape.vocab_size * shape.width + outer_weights_met(shape))


def pairs(length: int, window: int = 0) -> int:
    """Query and key pairs that causal attention over one row needs, within ``window`` positions where it is not 0."""
    if not window or window >= length:
        return length * (length + 1) // 2
    # The first positions see 1, 2, … up to `window` keys, all further ones exactly `window`.
    return window * (window + 1) // 2 + (length - window) * window


def state_operations(shape: ModelShape) -> int:
    """Operations of one token's forward through the states of all layers: what it reads, corrects and reads again."""
    layers = sum(map(shape.is_linear, range(shape.layers)))
    return layers * 3 * 2 * shape.linear_value_heads * shape.linear_key_head_dim * shape.linear_value_head_dim


def attention_operations(shape: ModelShape, length: int, *, square: bool = False) -> int:
    """Operations of one row's forward attention, all layers: scores and weighted sum, or a state.

    Args:
        shape: of the model.
        length: tokens of the row.
        square: count every pair, as plain attention computes them, instead of the causal ones that matter.
    """
    total = length * state_operations(shape)
    for layer in range(shape.layers):
        if shape.is_linear(layer):
            continue
        # For one pair: scores and weighted sum, each a multiplication and an addition for every number of every head.
        each = 2 * 2 * shape.heads * shape.head_dim_of(layer)
        window = shape.sliding_window if shape.slides(layer) else 0
        total += each * (length * length if square else pairs(length, window))
    return total


def step_operations(shape: ModelShape, lengths: Iterable[int], *, square: bool = False, recompute: bool = False) -> int:
    """Operations of one training step over rows of these lengths.

    Args:
        shape: of the model.
        lengths: tokens of each row (padding counts only if the caller counts it).
        square: see `attention_operations`.
        recompute: add the layers' second forward of `memory.remat: layer`. Leave it out for model FLOP utilization,
            which counts what the model needs and not what was recomputed.
    """
    total = 0
    for length in lengths:
        layers = length * projection_operations(shape) + attention_operations(shape, length, square=square)
        # Recomputation repeats the layers only: the head lies outside of what `remat` covers.
        total += (1 + BACKWARD) * (layers + length * head_operations(shape)) + recompute * layers
    return total
