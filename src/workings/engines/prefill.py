"""Prefill, the first part of generation: prompts are read before their completions are written.

Each prompt is read once for all of its completions. Few are read at a time: activations are larger than the cache.
"""

from collections.abc import Sequence
from itertools import groupby
from math import gcd

from workings.errors import RequestError
from workings.models.shape import ModelShape
from workings.models.weights import state_channels

MAX_PROMPTS = 128
"""The most rows that a process generates at a time."""
LARGEST_ACTIVATION = 128 << 20
"""The most bytes of the inner activation of one feed-forward, on one device."""
KEPT_SHARE = 0.7
"""Share of a device's memory up to which gathered layers are kept while completions are written."""
STATE_WIDTH = 4
"""A linear-attention layer needs this many times the width of its queries, keys and values."""


def prompts_at_a_time(shape: ModelShape, length: int, bytes_a_number: int) -> int:
    """The most prompts of this length that one device reads at a time; at least 1."""
    widest = max(STATE_WIDTH * state_channels(shape) if shape.is_linear(layer) else shape.mlp_width_of(layer)
                 for layer in range(shape.layers))
    return max(1, LARGEST_ACTIVATION // max(1, length * widest * bytes_a_number))


def cached_numbers(shape: ModelShape) -> int:
    """Numbers of the keys and values of one token in all layers that have their own."""
    return sum(2 * shape.kv_heads_of(layer) * shape.head_dim_of(layer)
               for layer in range(shape.layers) if not shape.shares_keys(layer))


def keeps_gathered_layers(*, state_bytes: int, gathered_bytes: int, cache_bytes: int, device_bytes: int) -> bool:
    """Whether devices that split a model keep its layers whole while they write completions.

    Otherwise they gather each layer again for every token. ``state_bytes``: what one device holds of weights and
    moments; ``gathered_bytes``: whole weights; ``cache_bytes``: keys and values of its rows at their greatest length.
    """
    return state_bytes + gathered_bytes + cache_bytes <= KEPT_SHARE * device_bytes


def copies_of_each(prompts: Sequence[Sequence[int]], most: int) -> int:
    """Completions for which a prompt is read once, 1 to ``most``. Equal prompts are neighbors: 2 for a a a a b b."""
    runs = [len(list(same)) for _, same in groupby(prompts)]
    return largest_divisor(gcd(*runs), most)


def largest_divisor(number: int, most: int) -> int:
    """The largest divisor of ``number`` that is at most ``most``; at least 1."""
    return max((each for each in range(2, min(number, most) + 1) if number % each == 0), default=1)


def check_prompts(prompts: Sequence[Sequence[int]]) -> None:
    """Raise `RequestError` for an empty prompt."""
    if any(len(prompt) == 0 for prompt in prompts):
        raise RequestError("a prompt is empty", "prompts of at least one token")


def check_sampling(prompts: Sequence[Sequence[int]], temperature: float, seeds: Sequence[int]) -> None:
    """Raise `RequestError` for a temperature that is not above 0, or for seeds that do not fit the prompts."""
    if temperature <= 0:
        raise RequestError(f"temperature must be above 0 for sampling, not {temperature:g}", "greedy decoding for 0")
    if len(seeds) != len(prompts) or not all(0 <= seed < 2 ** 32 for seed in seeds):
        raise RequestError(f"{len(seeds)} seeds do not fit {len(prompts)} prompts",
                           "one per prompt, each below 2 ** 32")
