"""How prompts are read before answers are written: each once for all of its completions, and so many at a time.

The completions of one prompt stand next to each other. The prompt is read once, and what is kept of it is repeated.

Between two layers a prompt needs many times what is kept of it in the cache; the widest is what the feed-forward holds.
Read all at once, 64 long prompts needed more memory for that than weights and cache together.
"""

from collections.abc import Sequence
from itertools import groupby
from math import gcd

from workings.models.shape import ModelShape
from workings.models.weights import state_channels

LARGEST_ACTIVATION = 256 << 20
"""Bytes of the inner activation of one feed-forward, on one device. Smaller batches are read whole: their results are
those that earlier versions recorded, to the bit."""
STATE_WIDTH = 4
"""A layer with a state holds so many times its queries, keys and values for each number of such an activation."""


def prompts_at_a_time(shape: ModelShape, length: int, bytes_a_number: int) -> int:
    """Most prompts of so many tokens that one device reads at a time; at least 1."""
    widest = max(STATE_WIDTH * state_channels(shape) if shape.is_linear(layer) else shape.mlp_width_of(layer)
                 for layer in range(shape.layers))
    return max(1, LARGEST_ACTIVATION // max(1, length * widest * bytes_a_number))


def copies_of_each(prompts: Sequence[Sequence[int]], most: int) -> int:
    """For how many completions each prompt can be read once: equal neighbours, as many of every prompt; at least 1.

    Args:
        prompts: one for each completion.
        most: completions of a prompt that fit into a batch.
    """
    # Where a prompt has more than another, or a batch cut a group, the largest number that divides them all.
    return largest_divisor(gcd(*(sum(1 for _ in same) for _, same in groupby(prompts))), most)


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of ``number`` that is at most ``most``; at least 1."""
    return max((each for each in range(2, min(number, most) + 1) if number % each == 0), default=1)
