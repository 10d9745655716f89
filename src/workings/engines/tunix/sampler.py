"""Tunix's `Sampler` on token ids: it wants texts and a tokenizer, the seam has ids."""

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
from flax import nnx
from tunix.generate.sampler import CacheConfig, Sampler

from workings.engines.base import Completion
from workings.models.shape import ModelShape

PAD = -1
"""No token: Tunix masks what equals its padding, so a real id here would vanish from prompts."""
NO_STOP = -2
"""A stop token that never comes."""


class IdsForText:
    """Tokenizer for Tunix whose texts are sequences of ids; it puts nothing before them."""

    def encode(self, ids: Sequence[int]) -> list[int]:
        """The ids themselves."""
        return list(ids)

    def decode(self, ids: Sequence[int]) -> str:
        """An empty text: only the ids are used."""
        del ids
        return ""

    def bos_id(self) -> None:
        """None: prompts come with theirs."""
        return

    def eos_id(self) -> int:
        """Never asked where stop tokens are given."""
        return NO_STOP

    def pad_id(self) -> int:
        """See `PAD`."""
        return PAD


def make_sampler(model: nnx.Module, shape: ModelShape, slots: int) -> Any:
    """A `Sampler` whose cache has this many slots (prompt and new tokens together)."""
    return Sampler(model, IdsForText(), CacheConfig(cache_size=slots, num_layers=shape.layers,
                                                    num_kv_heads=shape.kv_heads, head_dim=shape.head_dim))


def greedy(sampler: Any, prompts: Sequence[Sequence[int]], *, padded: int, max_new_tokens: int,
           stop_ids: Sequence[int]) -> list[Completion]:
    """Greedy completions of prompts that are at most ``padded`` tokens long."""
    sampled = sampler(list(prompts), max_generation_steps=max_new_tokens, max_prompt_length=padded,
                      eos_tokens=list(stop_ids) or [NO_STOP])
    return [_completion(np.asarray(jax.device_get(tokens)).tolist(), max_new_tokens) for tokens in sampled.tokens]


def _completion(tokens: list[int], limit: int) -> Completion:
    return Completion(tokens=tokens[:limit], finish_reason="stop" if len(tokens) < limit else "length")
