"""Attention functions for every transformers model, registered with transformers under our own names.

The keyword ``visible`` (`AttentionMask`) says which keys a query may see. It passes through the model's own keyword
arguments. Soft caps and sliding windows are computed, which transformers' SDPA function does not do for soft caps.

Shape suffixes: B rows, S query positions, T key positions, N query heads, K key/value heads, G = N / K, H head size.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from transformers import AttentionInterface

from workings.engines.torch.half import BackwardScale
from workings.engines.torch.prefix_sharing import DistinctPositions

EVERYTHING = 2**31 - 1
"""Window of a layer without a sliding window."""
QUERIES = 256
"""Query positions whose scores exist at one time in `chunked_attention`."""


@dataclass(frozen=True)
class AttentionMask:
    """Which keys a query may see: by default every key up to its own position."""

    segment_ids: Tensor | None = None
    """``[B, S]`` for packed sequences: a query sees its own segment."""
    distance: Tensor | None = None
    """``[B, S, T]`` query position minus key position, during generation."""
    seen: Tensor | None = None
    """``[B, T]`` keys that exist, during generation."""
    distinct: DistinctPositions | None = None
    """With prefix sharing: how the positions that are computed are laid out as rows."""
    _masks: dict[tuple[int, int], Tensor] = field(default_factory=dict)
    """Masks by length and window, which layers share."""

    def mask(self, length: int, window: int, device: torch.device) -> Tensor | None:
        """``[B or 1, 1, S, T]``: true where a query may look; None if it sees every key up to its own position."""
        if self.distance is None and self.segment_ids is None and window >= length:
            return None
        key = (length, window)
        if key not in self._masks:
            self._masks[key] = self._make(length, window, device)
        return self._masks[key]

    def _make(self, length: int, window: int, device: torch.device) -> Tensor:
        distance = self.distance
        if distance is None:
            index = torch.arange(length, device=device)
            distance = (index[:, None] - index)[None]
        allowed = (distance >= 0) & (distance < window)
        if self.seen is not None:
            allowed = allowed & self.seen[:, None]
        if self.segment_ids is not None:
            allowed = allowed & (self.segment_ids[:, :, None] == self.segment_ids[:, None, :])
        return allowed[:, None]


def _causal(queries: int, keys: int, first: int, device: torch.device) -> Tensor:
    """``[1, 1, S, T]`` causal mask; ``first``: place of the first query among the keys."""
    return (torch.arange(queries, device=device)[:, None] + first >= torch.arange(keys, device=device))[None, None]


def _repeat_heads(x: Tensor, heads: int) -> Tensor:
    """Keys or values ``[B, K, T, H]`` with a copy of each head for every query head that shares it."""
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _attend(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, scale: float, softcap: float) -> Tensor:
    """``[B, N, S, H]``: scores, softmax in float32, weighted sum."""
    scores = (q @ k.transpose(-1, -2)).float() * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    # A finite number: a query without any key (padding in generation) would give NaN with an infinite one.
    weights = scores.masked_fill(~allowed, -2.0e38).softmax(-1)
    return weights.to(v.dtype) @ v


def plain_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float) -> Tensor:
    """Attention with the whole square of scores in memory."""
    allowed = mask if mask is not None else _causal(q.shape[2], k.shape[2], 0, q.device)
    return _attend(q, _repeat_heads(k, q.shape[1]), _repeat_heads(v, q.shape[1]), allowed, scale, softcap)


def chunked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float) -> Tensor:
    """`plain_attention` for `QUERIES` query positions at a time, with scores recomputed in backward."""
    k, v = _repeat_heads(k, q.shape[1]), _repeat_heads(v, q.shape[1])
    parts = []
    for first in range(0, q.shape[2], QUERIES):
        rows = q[:, :, first:first + QUERIES]
        if mask is None:
            end = first + rows.shape[2]
            allowed = _causal(rows.shape[2], end, first, q.device)
        else:
            end = k.shape[2]
            allowed = mask[:, :, first:first + QUERIES]
        parts.append(checkpoint(_attend, rows, k[:, :, :end], v[:, :, :end], allowed, scale, softcap,
                                use_reentrant=False, preserve_rng_state=False))
    return torch.cat(parts, 2)


def fused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float) -> Tensor:
    """PyTorch's scaled dot product attention: flash or memory-efficient kernels; no soft cap."""
    assert not softcap  # `choose` never returns it for a capped model
    # Only these kernels take grouped heads. Others would fall back to one that makes the whole square of scores.
    grouped = mask is None and q.dtype != torch.float32 and q.is_cuda and q.shape[-1] <= 256
    if not grouped:
        k, v = _repeat_heads(k, q.shape[1]), _repeat_heads(v, q.shape[1])
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, is_causal=mask is None,
                                          enable_gqa=grouped)


Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None, float, float], Tensor]
FUNCTIONS: dict[str, Attention] = {"plain": plain_attention, "chunked": chunked_attention, "fused": fused_attention}
"""Functions ``(q, k, v, mask, scale, softcap)`` on ``[B, heads, positions, H]``."""


def choose(asked: str, platform: str, softcap: float) -> str:
    """The key of `FUNCTIONS` for a recipe's `memory.attention`. ``auto`` is ``fused``, unless scores are capped."""
    if asked == "flash":
        return "fused"  # transformers looks for a kernel on the Hub if a name contains "flash"
    if asked != "auto":
        return asked
    if not softcap:
        return "fused"
    return "plain" if platform == "cpu" else "chunked"


def _for_transformers(attention: Attention) -> Callable[..., tuple[Tensor, None]]:
    """A function with the arguments and results that transformers expects."""
    def attend(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, *,
               scaling: float, visible: AttentionMask, sliding_window: int | None = None, softcap: float | None = None,
               **others: Any) -> tuple[Tensor, None]:
        distinct = visible.distinct
        if distinct is not None:
            query, key, value = (distinct.split(x) for x in (query, key, value))
        mask = visible.mask(query.shape[2], sliding_window or EVERYTHING, query.device)
        shape = query.shape
        if shape[2] == 1 and mask is not None:
            # One new token: query heads that share a key head become queries of that head, so no key is copied.
            query = query.reshape(shape[0], key.shape[1], -1, shape[3])
        out = attention(query, key, value, mask, scaling, softcap or 0.0).reshape(shape)
        if distinct is not None:
            out = distinct.merge(out)
        return out.transpose(1, 2), None  # [B, S, N, H], and no attention weights
    return attend


def in_half(attention: Attention) -> Attention:
    """An attention function of float32 tensors that multiplies in float16; scores are added up in float32."""
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float) -> Tensor:
        backward_scale = BackwardScale()
        # Queries are scaled before the product, because an unscaled score can exceed float16's range.
        q, k, v = backward_scale.inputs(q * scale, k, v)
        return backward_scale.output(attention(q.half(), k.half(), v.half(), mask, 1.0, softcap).float())
    return attend


def registered_name(attention: str, products: torch.dtype) -> str:
    """Name in transformers of a key of `FUNCTIONS` with products in this format."""
    return f"workings_{attention}_half" if products == torch.float16 else f"workings_{attention}"


def register() -> None:
    """Make the functions known to transformers as ``workings_plain``, ``workings_chunked`` and so on."""
    for name, attention in FUNCTIONS.items():
        AttentionInterface.register(registered_name(name, torch.float32), _for_transformers(attention))
        AttentionInterface.register(registered_name(name, torch.float16), _for_transformers(in_half(attention)))
