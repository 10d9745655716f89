"""The last layer's feed-forward at supervised positions only: its output at other positions does not reach the loss."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import Tensor, nn
from transformers import PreTrainedModel


def last_feed_forward(model: PreTrainedModel) -> nn.Module:
    """The feed-forward block of the last layer; transformers has two names for the list of layers."""
    base = model.base_model
    layers = base.h if hasattr(base, "h") else base.layers
    return layers[-1].mlp


@contextmanager
def only_at(model: PreTrainedModel, index: Tensor, positions: int) -> Iterator[None]:
    """Within the context the last feed-forward is computed at these positions only, and is zero at the others.

    Args:
        model: from `build_model`, without recomputation in backward (which would come after this).
        index: ``[N]`` int64 positions of the flattened rows, ascending.
        positions: number of positions of all rows.
    """
    block = last_feed_forward(model)
    # Selecting all positions would only cost two copies.
    if index.shape[0] == positions:
        yield
        return
    original_forward = block.forward

    def forward(x_BSD: Tensor) -> Tensor:
        flat = x_BSD.reshape(-1, x_BSD.shape[-1])
        output = original_forward(flat.index_select(0, index))
        # The last attention has already run, so no position attends to another one's zeros.
        return output.new_zeros(flat.shape).index_copy(0, index, output).view_as(x_BSD)

    # An instance attribute hides the class's method; deleting it restores the method.
    block.forward = forward
    try:
        yield
    finally:
        del block.forward
