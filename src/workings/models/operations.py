"""Weights and floating-point operations of one token, from the model's shape. A multiply and an add are two operations.

Only matrix products count: norms, activations and the optimizer are below two percent.
"""

from functools import cache
from math import prod

from workings.models.family import PER_LAYER_EMBEDDING, PER_LAYER_PROJECTION
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import layer_shapes, parameter_count


@cache
def weights_met(shape: ModelShape) -> int:
    """Weights in the layers' matrices that one token is multiplied with; of experts only those that it is routed to."""
    total = 0
    for layer in range(shape.layers):
        for size in layer_shapes(shape, layer).values():
            if len(size) == 2:
                total += prod(size)
            elif len(size) == 3 and shape.experts:  # [experts, out, in]
                total += prod(size) // shape.experts * shape.experts_per_token
    return total


def outer_weights_met(shape: ModelShape) -> int:
    """Weights outside of layers and head that one token is multiplied with: the per-layer projection, if any."""
    return prod(family_of(shape).outer_shapes(shape)[PER_LAYER_PROJECTION]) if shape.per_layer_width else 0


def weights_read(shape: ModelShape) -> int:
    """Stored parameters that computing a token reads: neither per-layer embeddings nor unused experts."""
    table = prod(family_of(shape).outer_shapes(shape)[PER_LAYER_EMBEDDING]) if shape.per_layer_width else 0
    unused = 0
    if shape.experts:
        experts = sum(prod(size) for layer in range(shape.layers) for size in layer_shapes(shape, layer).values()
                      if len(size) == 3)
        unused = experts // shape.experts * (shape.experts - shape.experts_per_token)
    return parameter_count(shape) - table - unused


def pairs(length: int, window: int = 0) -> int:
    """Pairs of query and key in causal attention over one row; ``window``: positions that a query sees, 0: all."""
    if not window or window >= length:
        return length * (length + 1) // 2
    # With a window of 2, four positions see 1 + 2 + 2 + 2.
    return window * (window + 1) // 2 + (length - window) * window


def attention_operations(shape: ModelShape, length: int, *, square: bool = False) -> int:
    """Operations of one row's attention or states, all layers, forward; ``square``: all pairs, not only causal ones."""
    # Each token reads the state, a matrix for each value head, corrects it, and reads it again.
    state_operations = 3 * 2 * shape.linear_value_heads * shape.linear_key_head_dim * shape.linear_value_head_dim
    total = 0
    for layer in range(shape.layers):
        if shape.is_linear(layer):
            total += length * state_operations
            continue
        pair_operations = 2 * 2 * shape.heads * shape.head_dim_of(layer)
        window = shape.sliding_window if shape.slides(layer) else 0
        total += pair_operations * (length * length if square else pairs(length, window))
    return total
