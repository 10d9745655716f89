"""How many prompts are read at a time before answers are written.

Between two layers a prompt needs many times what is kept of it in the cache; the widest is what the feed-forward holds.
Read all at once, 64 long prompts needed more memory for that than weights and cache together.
"""

from workings.models.shape import ModelShape

LARGEST_ACTIVATION = 256 << 20
"""Bytes of the inner activation of one feed-forward, on one device. Smaller batches are read whole: their results are
those that earlier versions recorded, to the bit."""


def prompts_at_a_time(shape: ModelShape, length: int, bytes_a_number: int) -> int:
    """Most prompts of so many tokens that one device reads at a time; at least 1."""
    widest = max(shape.mlp_width_of(layer) for layer in range(shape.layers))
    return max(1, LARGEST_ACTIVATION // max(1, length * widest * bytes_a_number))
