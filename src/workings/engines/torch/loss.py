"""Masked next-token loss as a sum, from hidden states and the output embedding, without the logits of all positions.

The gradient is computed in the forward pass, so the logits of a block are made, used and dropped; autograd keeps no
array of positions by vocabulary. Two walks with the same result:

- over positions: ``chunk`` positions by the whole vocabulary at a time. The head's gradient is added up in place, which
  is exact enough in float32 only. With the kernel of `card.loss` also for a float32 head and bf16 arithmetic: the
  head is then converted once, as a whole.
- over the vocabulary: all positions by a slice of the vocabulary at a time, at most as many elements as the other walk
  has; one pass for the normalizer, one for the gradients. Each row of the head's gradient is one matrix product,
  rounded once when stored, and where storage and arithmetic differ (bf16 weights, float32 arithmetic) only a slice of
  the head is ever converted. It costs one more matrix product than the first walk.

A position may have several targets, each with a weight of its own: its loss is then the sum over them.

Shape suffixes: T positions, D width, V vocabulary, C positions or vocabulary entries of a block, K targets of a
position.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor

from workings.engines.torch.embedding import SharedGradient
from workings.engines.torch.memory_regions import region
from workings.engines.torch.triton.loss import add_product_, block_loss_

REGION = "logits and loss"
ALIGNED = 128
"""Entries of the vocabulary of which a slice has a multiple."""


def linear_cross_entropy(hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, *, chunk: int,
                         soft_cap: float, kernel: bool = False, shared: SharedGradient | None = None) -> Tensor:
    """Sum of ``weights * negative log likelihood`` in nats, a float32 scalar.

    Args:
        hidden: ``[..., D]`` in the format of the arithmetic.
        weight: ``[V, D]`` in the format of storage; converted block by block where it differs.
        targets: ``[...]`` token ids, or ``[..., K]``; any where the weight is zero.
        weights: of the same shape, float32. A mean is best asked for by dividing these: gradients in bf16 that are
            scaled afterwards are rounded twice.
        chunk: positions whose logits exist at one time, or as many elements over a slice of the vocabulary; 0: all.
        soft_cap: logits pass through ``cap * tanh(x / cap)``; 0: they do not.
        kernel: whether `card.loss` does what it can.
        shared: of a tied embedding, which then brings the head's gradient to the weight.
    """
    flat = hidden.reshape(-1, hidden.shape[-1])
    index = _by_position(hidden, targets)
    loss: Tensor = _LinearCrossEntropy.apply(flat, weight, index, weights.reshape(index.shape).float(),
                                             chunk or flat.shape[0], soft_cap, kernel, shared)
    return loss


def _by_position(hidden: Tensor, targets: Tensor) -> Tensor:
    """``[T, K]`` int64 targets of every position, also of none."""
    count = targets.shape[-1] if targets.dim() == hidden.dim() else 1
    return targets.reshape(-1, count).long()


def walks_over_positions(hidden: Tensor, weight: Tensor, kernel: bool = False) -> bool:
    """Whether adding up the head's gradient chunk by chunk loses nothing: float32, or no gradient is wanted."""
    if hidden.dtype != weight.dtype:
        return kernel and hidden.dtype == torch.bfloat16 and weight.dtype == torch.float32
    # The walk adds each chunk's part to the stored sum, which bfloat16 would round once a chunk.
    return weight.dtype == torch.float32 or not weight.requires_grad


@torch.no_grad()
def linear_log_probs(hidden: Tensor, weight: Tensor, targets: Tensor, *, chunk: int, soft_cap: float,
                     kernel: bool = False) -> Tensor:
    """Float32 log probabilities of the targets, in their shape; no derivative.

    Arguments as in `linear_cross_entropy`.
    """
    flat = hidden.reshape(-1, hidden.shape[-1])
    index = _by_position(hidden, targets)
    with region(REGION):
        # Without a gradient nothing is added up, so only a head that must be converted is taken by slices.
        if hidden.dtype == weight.dtype or walks_over_positions(hidden, weight, kernel):
            size, head = max(1, chunk or flat.shape[0]), weight.to(hidden.dtype)
            block = _block_by_kernel if kernel else _block
            parts = [block(h, head, t, torch.zeros(t.shape, device=t.device), soft_cap, False)[0]
                     for h, t in zip(flat.split(size), index.split(size), strict=True)]
            log_probs = torch.cat(parts) if parts else flat.new_zeros(index.shape, dtype=torch.float32)
        else:
            width = _slice_width(flat, weight, chunk or flat.shape[0])
            log_z, of_target = _normalizer_by_vocabulary(flat, weight, index, width, soft_cap)
            log_probs = of_target - log_z[:, None]
    return log_probs.view(targets.shape)


@torch.no_grad()
def linear_most_likely(hidden: Tensor, weight: Tensor, count: int, below: int, *, chunk: int,
                       soft_cap: float) -> tuple[Tensor, Tensor]:
    """The most likely tokens with ids under ``below``, and their log probabilities among all.

    Returns:
        ``[T, count]`` int64, the most likely one first, and float32. Arguments as in `linear_cross_entropy`, of
        hidden states ``[T, D]``.
    """
    positions, width = hidden.shape[0], _slice_width(hidden, weight, chunk or max(1, hidden.shape[0]))
    log_z = torch.full((positions,), -torch.inf, dtype=torch.float32, device=hidden.device)
    best = torch.empty((positions, 0), dtype=torch.float32, device=hidden.device)
    tokens = torch.empty((positions, 0), dtype=torch.int64, device=hidden.device)
    with region(REGION):
        for start in range(0, weight.shape[0], width):
            logits = _logits(hidden, weight[start:start + width].to(hidden.dtype), soft_cap)
            known = logits[:, :max(0, below - start)]
            largest, place = known.topk(min(count, known.shape[1]))
            # The best so far and the best of this slice, of which again the best stay.
            best, tokens = torch.cat([best, largest], 1), torch.cat([tokens, place + start], 1)
            best, order = best.topk(min(count, best.shape[1]))
            tokens = tokens.gather(1, order)
            log_z = torch.logaddexp(log_z, _normalizer_(logits))
            del logits, known
    return tokens, best - log_z[:, None]


class _LinearCrossEntropy(torch.autograd.Function):
    """Value and both gradients in one go; backward only scales."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int,
                soft_cap: float, kernel: bool, shared: SharedGradient | None) -> Tensor:
        ctx.shared = shared
        walk = partial(_over_positions, kernel=kernel) if walks_over_positions(hidden, weight, kernel) \
            else _over_vocabulary
        wanted = (ctx.needs_input_grad[0], ctx.needs_input_grad[1])
        with region(REGION):
            loss, ctx.d_hidden, ctx.d_weight = walk(hidden.detach(), weight.detach(), targets, weights,
                                                    max(1, min(chunk, hidden.shape[0])), soft_cap, wanted)
        return loss

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        # Both are handed over, not kept: autograd may then add other gradients to them in place.
        d_hidden, d_weight = ctx.d_hidden, ctx.d_weight
        ctx.d_hidden = ctx.d_weight = None
        if d_weight is not None:
            d_weight.mul_(outer[0])
            if ctx.shared is not None:
                ctx.shared.leave(d_weight)
                # Autograd gets nothing for the head here; the embedding's backward returns the sum of both gradients.
                d_weight = None
        return None if d_hidden is None else d_hidden.mul_(outer[0]), d_weight, *[None] * 6


def _over_positions(hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int, soft_cap: float,
                    wanted: tuple[bool, bool], kernel: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
    loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
    d_hidden = torch.empty_like(hidden) if wanted[0] else None
    d_weight = _gradient_of(weight) if wanted[1] else None
    block, head = _block_by_kernel if kernel else _block, weight.to(hidden.dtype)
    for start in range(0, hidden.shape[0], chunk):
        here = slice(start, start + chunk)
        log_probs, d_logits = block(hidden[here], head, targets[here], weights[here], soft_cap, any(wanted))
        loss -= (log_probs * weights[here]).sum()
        if d_hidden is not None:
            torch.mm(d_logits, head, out=d_hidden[here])
        if d_weight is not None and weight.dtype != hidden.dtype:
            add_product_(d_weight, d_logits, hidden[here])
        elif d_weight is not None:
            d_weight.addmm_(d_logits.t(), hidden[here])
        # They would be there beside the next block's.
        del d_logits
    return loss, d_hidden, d_weight


def _block(hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor, soft_cap: float,
           gradient: bool) -> tuple[Tensor, Tensor]:
    """``[C, K]`` log probabilities of a block's targets and, with ``gradient``, that of the loss by its logits.

    The loss is the sum of ``-weights * log_probs``. Without ``gradient`` the second result is of no use.
    """
    logits = _logits(hidden, head, soft_cap)
    # The target's logit and the cap's slope are read before `_normalizer_` overwrites the logits.
    picked, slope = logits.gather(1, targets), _cap_slope(logits, soft_cap) if gradient else None
    log_z = _normalizer_(logits)
    if gradient:
        # `_normalizer_` left exp(logits - top): one buffer serves logits, probabilities and their gradient.
        logits.mul_((weights.sum(-1) / logits.sum(-1))[:, None])
        # The gradient by the logits: the token's weight times (softmax minus one at the target).
        logits.scatter_add_(1, targets, -weights)
        logits = (logits if slope is None else logits.mul_(slope)).to(hidden.dtype)
    return picked - log_z[:, None], logits


def _block_by_kernel(hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor, soft_cap: float,
                     gradient: bool) -> tuple[Tensor, Tensor]:
    """What `_block` gives, by the kernel, which puts the gradient in the place of the logits."""
    logits = torch.mm(hidden, head.t())
    picked = logits.gather(1, targets).float()
    if soft_cap:
        picked.div_(soft_cap).tanh_().mul_(soft_cap)
    return picked - block_loss_(logits, targets, weights, soft_cap, gradient)[:, None], logits


def _over_vocabulary(hidden: Tensor, weight: Tensor, targets: Tensor, weights: Tensor, chunk: int, soft_cap: float,
                     wanted: tuple[bool, bool]) -> tuple[Tensor, Tensor | None, Tensor | None]:
    vocabulary, width = weight.shape[0], _slice_width(hidden, weight, chunk)
    log_z, of_target = _normalizer_by_vocabulary(hidden, weight, targets, width, soft_cap)
    loss = ((log_z[:, None] - of_target) * weights).sum()
    if not any(wanted):
        return loss, None, None
    # Every slice adds to all positions: a float32 sum is rounded once, at the end.
    d_hidden = torch.zeros_like(hidden, dtype=torch.float32) if wanted[0] else None
    d_weight = _gradient_of(weight) if wanted[1] else None
    for start in range(0, vocabulary, width):
        part = weight[start:start + width].to(hidden.dtype)
        logits = _logits(hidden, part, soft_cap)
        inside, place = _place(targets, start, logits.shape[1])
        slope = _cap_slope(logits, soft_cap)
        # The normalizer of the first pass makes exp give the softmax itself, without a second look for the largest.
        # A target in another slice subtracts zero at a place that exists.
        logits.sub_(log_z[:, None]).exp_().mul_(weights.sum(-1, keepdim=True)).scatter_add_(1, place, -weights * inside)
        d_logits = (logits if slope is None else logits.mul_(slope)).to(hidden.dtype)
        del logits, slope
        if d_hidden is not None:
            d_hidden += torch.mm(d_logits, part)
        if d_weight is not None and weight.dtype != hidden.dtype:
            # `out=` takes the product's own format only, so here the product exists once more before it is rounded.
            d_weight[start:start + width] = torch.mm(d_logits.t(), hidden)
        elif d_weight is not None:
            torch.mm(d_logits.t(), hidden, out=d_weight[start:start + width])
        del d_logits, part
    return loss, None if d_hidden is None else d_hidden.to(hidden.dtype), d_weight


def _slice_width(hidden: Tensor, weight: Tensor, chunk: int) -> int:
    """Vocabulary entries of a slice, so that its logits are as many as those of ``chunk`` whole positions."""
    # Converted slices of the head and their gradient count like logits.
    converted = 2 * weight.shape[1] if weight.dtype != hidden.dtype else 0
    width = weight.shape[0] * chunk // max(1, hidden.shape[0] + converted)
    # Matrix units read rows that begin at multiples of 16 bytes; others cost up to three times as much on an H200.
    return max(1, width // ALIGNED * ALIGNED or width)


def _normalizer_by_vocabulary(hidden: Tensor, weight: Tensor, targets: Tensor, width: int,
                              soft_cap: float) -> tuple[Tensor, Tensor]:
    """``[T]`` log of the sum of exponentials and ``[T, K]`` logits of targets, slice by slice of the vocabulary."""
    positions = hidden.shape[0]
    # Minus infinity is what leaves `logaddexp` unchanged.
    log_z = torch.full((positions,), -torch.inf, dtype=torch.float32, device=hidden.device)
    of_target = torch.zeros(targets.shape, dtype=torch.float32, device=hidden.device)
    for start in range(0, weight.shape[0], width):
        logits = _logits(hidden, weight[start:start + width].to(hidden.dtype), soft_cap)
        inside, place = _place(targets, start, logits.shape[1])
        of_target += logits.gather(1, place) * inside
        log_z = torch.logaddexp(log_z, _normalizer_(logits))
        del logits
    return log_z, of_target


def _gradient_of(weight: Tensor) -> Tensor:
    with region("gradients"):
        return torch.zeros_like(weight)


def _logits(hidden_TD: Tensor, part_CD: Tensor, soft_cap: float) -> Tensor:
    """Float32 logits of a block, after the cap."""
    # In bfloat16 the product is rounded once; cap, exponentials and sums are float32.
    raw = torch.mm(hidden_TD, part_CD.t()).float()
    return raw.div_(soft_cap).tanh_().mul_(soft_cap) if soft_cap else raw


def _cap_slope(logits: Tensor, soft_cap: float) -> Tensor | None:
    """Derivative of the cap at capped logits; nothing without a cap."""
    # 1 - tanh ** 2, from capped logits alone: those before the cap need not be kept.
    return (logits / soft_cap).square_().neg_().add_(1.0) if soft_cap else None


def _normalizer_(logits_TC: Tensor) -> Tensor:
    """``[T]`` log of the sum of exponentials; leaves ``exp(logits - largest of the row)`` behind."""
    # With the largest taken off, exp cannot overflow.
    top = logits_TC.amax(-1)
    return logits_TC.sub_(top[:, None]).exp_().sum(-1).log_().add_(top)


def _place(targets: Tensor, start: int, width: int) -> tuple[Tensor, Tensor]:
    """``[T, K]`` whether a target lies in this slice of the vocabulary, and where (anywhere if it does not)."""
    inside = (targets >= start) & (targets < start + width)
    return inside, (targets - start).clamp(0, width - 1)
