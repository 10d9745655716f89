"""Attention for every transformers model, registered under a name of our own.

transformers then builds no mask: what a query may see follows from segment ids and positions, which reach these
functions as the keyword ``visible`` through the model's own keyword arguments. Soft caps and sliding windows are
honoured (transformers' SDPA path drops soft caps without a word).

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
"""Window of a layer that sees all positions before."""
QUERIES = 256
"""Query positions whose scores exist at one time in `chunked_attention`."""


@dataclass(frozen=True)
class AttentionMask:
    """Which keys a query may see; masks are made once per window and shared by the layers.

    Without ``segment_ids`` and ``distance`` every key up to the query's own position is seen.
    """

    segment_ids: Tensor | None = None
    """``[B, S]`` where several rows share a sequence."""
    distance: Tensor | None = None
    """``[B, S, T]`` query position minus key position, during generation."""
    seen: Tensor | None = None
    """``[B, T]`` keys that exist, during generation."""
    distinct: DistinctPositions | None = None
    """With prefix sharing, what is laid out as rows for attention, which then need no ``segment_ids``."""
    _masks: dict[tuple[int, int], Tensor] = field(default_factory=dict)

    def mask(self, length: int, window: int, device: torch.device) -> Tensor | None:
        """``[B or 1, 1, S, T]`` true where a query may look; None where that is all keys up to its own position."""
        if self.distance is None and self.segment_ids is None and window >= length:
            return None
        # One object serves one micro batch or one new token, so length and window name a mask.
        key = (length, min(window, EVERYTHING))
        if key not in self._masks:
            self._masks[key] = self._make(length, window, device)
        return self._masks[key]

    def _make(self, length: int, window: int, device: torch.device) -> Tensor:
        distance = self.distance
        if distance is None:
            # Places in the row, not in the segment: within one segment their distances are the same.
            index = torch.arange(length, device=device)
            distance = (index[:, None] - index)[None]
        allowed = (distance >= 0) & (distance < window)
        if self.seen is not None:
            allowed = allowed & self.seen[:, None]
        if self.segment_ids is not None:
            allowed = allowed & (self.segment_ids[:, :, None] == self.segment_ids[:, None, :])
        return allowed[:, None]


def _causal(queries: int, keys: int, first: int, device: torch.device) -> Tensor:
    # `first` is the place of the first query among the keys.
    return (torch.arange(queries, device=device)[:, None] + first >= torch.arange(keys, device=device))[None, None]


def _spread(x: Tensor, heads: int) -> Tensor:
    """Each key/value head ``[B, K, T, H]`` once per query head that shares it."""
    # The copies make keys and values G times as large.
    return x if x.shape[1] == heads else x.repeat_interleave(heads // x.shape[1], 1)


def _scored(q: Tensor, k: Tensor, v: Tensor, allowed: Tensor, scale: float, softcap: float) -> Tensor:
    """``[B, N, S, H]``: scores, softmax in float32, weighted sum."""
    # In bfloat16 the product is rounded before it is widened; cap and softmax are float32.
    scores = (q @ k.transpose(-1, -2)).float() * scale
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    # Finite, so that a query without any key (padding in generation) gives numbers and not NaN.
    weights = scores.masked_fill(~allowed, -2.0e38).softmax(-1)
    return weights.to(v.dtype) @ v


def plain_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float) -> Tensor:
    """Attention with the whole square of scores in memory."""
    allowed = mask if mask is not None else _causal(q.shape[2], k.shape[2], 0, q.device)
    return _scored(q, _spread(k, q.shape[1]), _spread(v, q.shape[1]), allowed, scale, softcap)


def chunked_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float) -> Tensor:
    """`plain_attention` for `QUERIES` query positions at a time, with scores recomputed in backward."""
    k, v = _spread(k, q.shape[1]), _spread(v, q.shape[1])
    parts = []
    for first in range(0, q.shape[2], QUERIES):
        rows = q[:, :, first:first + QUERIES]
        # Without a mask nothing after the last query of the chunk is seen, so it is not looked at.
        end = k.shape[2] if mask is not None else first + rows.shape[2]
        allowed = (mask[:, :, first:first + QUERIES] if mask is not None
                   else _causal(rows.shape[2], end, first, q.device))
        # Nothing here draws random numbers, so no generator's state is kept for the second forward.
        parts.append(checkpoint(_scored, rows, k[:, :, :end], v[:, :, :end], allowed, scale, softcap,
                                use_reentrant=False, preserve_rng_state=False))
    return torch.cat(parts, 2)


def fused_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float) -> Tensor:
    """PyTorch's scaled dot product attention: flash or memory-efficient kernels; no soft cap."""
    assert not softcap  # `choose` never hands it a capped model
    # Kernels that take grouped heads as they are exist for half precision without a mask only, and for heads of up to
    # 256 (Gemma 4's global layers have 512); the others would fall back to one that makes the whole square of scores.
    grouped = mask is None and q.dtype != torch.float32 and q.is_cuda and q.shape[-1] <= 256
    if not grouped:
        k, v = _spread(k, q.shape[1]), _spread(v, q.shape[1])
    # `is_causal` sets the first query next to the first key: without a mask there are as many keys as queries.
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale, is_causal=mask is None,
                                          enable_gqa=grouped)


Attention = Callable[[Tensor, Tensor, Tensor, Tensor | None, float, float], Tensor]
FUNCTIONS: dict[str, Attention] = {"plain": plain_attention, "chunked": chunked_attention, "fused": fused_attention}
"""Functions ``(q, k, v, mask, scale, softcap)`` on ``[B, heads, positions, H]``."""


def choose(asked: str, platform: str, softcap: float) -> str:
    """The function that `memory.attention` represents; ``auto``: fused, or for capped scores what the device bears."""
    if asked == "flash" or (asked == "auto" and not softcap):
        return "fused"  # transformers looks for a kernel on the Hub if a name contains "flash"
    if asked != "auto":
        return asked
    return "plain" if platform == "cpu" else "chunked"


def _registered(attention: Attention) -> Callable[..., tuple[Tensor, None]]:
    """A function in the form in which transformers calls it."""
    def attend(module: torch.nn.Module, query: Tensor, key: Tensor, value: Tensor, attention_mask: Any, *,
               scaling: float, visible: AttentionMask, sliding_window: int | None = None, softcap: float | None = None,
               **others: Any) -> tuple[Tensor, None]:
        del module, attention_mask, others
        window = sliding_window or EVERYTHING
        distinct = visible.distinct
        if distinct is not None:
            query, key, value = (distinct.split(x) for x in (query, key, value))
        # After a split each row is one segment, so causality and the window are all that a mask has to say.
        mask = visible.mask(query.shape[2], window, query.device)
        size = query.shape
        if size[2] == 1 and mask is not None:
            # Of one new token the heads that share keys are as several queries of one head, so that no key is copied.
            query = query.reshape(size[0], key.shape[1], -1, size[3])
        out = attention(query, key, value, mask, scaling, softcap or 0.0).reshape(size)
        if distinct is not None:
            out = distinct.merge(out)
        # transformers wants positions before heads, and None where no attention weights are kept.
        return out.transpose(1, 2), None
    return attend


def in_half(attention: Attention) -> Attention:
    """A function that multiplies float32 queries, keys and values in float16; scores are added up in float32."""
    def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float) -> Tensor:
        around = BackwardScale()
        # Scaled first: a score before the scale can be beyond float16's range.
        q, k, v = around.inputs(q * scale, k, v)
        return around.output(attention(q.half(), k.half(), v.half(), mask, 1.0, softcap).float())
    return attend


def registered_name(attention: str, products: torch.dtype) -> str:
    """Name in transformers of a key of `FUNCTIONS` with products in this format."""
    return f"workings_{attention}_half" if products == torch.float16 else f"workings_{attention}"


def register() -> None:
    """Make the functions known to transformers as ``workings_plain``, ``workings_chunked`` and so on."""
    for name, attention in FUNCTIONS.items():
        AttentionInterface.register(registered_name(name, torch.float32), _registered(attention))
        AttentionInterface.register(registered_name(name, torch.float16), _registered(in_half(attention)))
