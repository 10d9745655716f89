"""Masked next-token loss from hidden states and the output embedding (the head), without the logits of all positions.

Gradients are computed in the forward pass, so the logits of a block are made, used and freed. `goes_over_positions`
chooses between two ways, which give the same result from blocks of equal size:

- Over positions: some positions and the whole vocabulary at a time. Each block is added to the head's gradient, which
  is exact enough in float32 only.
- Over the vocabulary: all positions and a slice of the vocabulary at a time, first for the normalizer, then for the
  gradients. This costs one more matrix product. It rounds the head's gradient once, and converts only one slice of a
  head that is stored in another format.

The loss of a position with several targets is their weighted sum.

Shape suffixes: T positions, D width, V vocabulary, C positions or vocabulary entries of a block, K targets of a
position.
"""

from typing import Any

import torch
from torch import Tensor

from workings.engines.torch.embedding import SharedGradient
from workings.engines.torch.half import multiply, power_above
from workings.engines.torch.memory_regions import region
from workings.engines.torch.triton.operations import add_product_, block_loss_

REGION = "logits and loss"
ALIGNED = 128
"""The width of a slice of the vocabulary is a multiple of this."""


def linear_cross_entropy(hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor, *, chunk: int,
                         soft_cap: float, kernel: bool = False, shared: SharedGradient | None = None,
                         products: torch.dtype | None = None) -> Tensor:
    """Sum of ``weights * negative log likelihood`` in nats, a float32 scalar.

    Args:
        hidden: ``[..., D]`` in the format of the arithmetic.
        head: ``[V, D]`` in the format of storage; converted block by block where it differs.
        targets: ``[...]`` token ids, or ``[..., K]``; not read where the weight is zero.
        weights: of the same shape, float32. For a mean, divide these: bf16 gradients that are scaled afterwards are
            rounded twice.
        chunk: positions whose logits exist at one time; a slice of the vocabulary has as many logits. 0: all.
        soft_cap: logits pass through ``cap * tanh(x / cap)``; 0: they do not.
        kernel: whether to use the kernel of `triton.operations.block_loss_`.
        shared: takes the head's gradient, if the head is the embedding too.
        products: format of the factors of products, if it is not that of ``hidden``.
    """
    flat = hidden.reshape(-1, hidden.shape[-1])
    index = _by_position(hidden, targets)
    loss: Tensor = _LinearCrossEntropy.apply(flat, head, index, weights.reshape(index.shape).float(),
                                             chunk or flat.shape[0], soft_cap, kernel, shared, products or flat.dtype)
    return loss


def _by_position(hidden: Tensor, targets: Tensor) -> Tensor:
    """``[T, K]`` int64 targets of every position; T may be 0."""
    count = targets.shape[-1] if targets.dim() == hidden.dim() else 1
    return targets.reshape(-1, count).long()


def goes_over_positions(hidden: Tensor, head: Tensor, kernel: bool = False) -> bool:
    """Whether the loss goes over positions: the head's gradient is float32 or not needed."""
    if hidden.dtype != head.dtype:
        # The kernel takes a head that was converted whole.
        return kernel and hidden.dtype == torch.bfloat16 and head.dtype == torch.float32
    return head.dtype == torch.float32 or not head.requires_grad


@torch.no_grad()
def linear_log_probs(hidden: Tensor, head: Tensor, targets: Tensor, *, chunk: int, soft_cap: float,
                     kernel: bool = False) -> Tensor:
    """Float32 log probabilities of the targets, in their shape. Arguments as in `linear_cross_entropy`."""
    flat = hidden.reshape(-1, hidden.shape[-1])
    index = _by_position(hidden, targets)
    with region(REGION):
        # Without a gradient nothing is added up, so the head is sliced only if it must be converted.
        if hidden.dtype == head.dtype or goes_over_positions(hidden, head, kernel):
            size, used_head = max(1, chunk or flat.shape[0]), head.to(hidden.dtype)
            block = _block_by_kernel if kernel else _block
            log_probs = flat.new_zeros(index.shape, dtype=torch.float32)
            for start in range(0, flat.shape[0], size):
                rows = slice(start, start + size)
                no_weights = torch.zeros(index[rows].shape, device=flat.device)
                # No name for the second result, which would keep a block of logits alive.
                log_probs[rows] = block(flat[rows], used_head, index[rows], no_weights, soft_cap, False)[0]
        else:
            width = _slice_width(flat, head, chunk or flat.shape[0])
            log_z, target_logits = _normalizer_by_vocabulary(flat, head, index, width, soft_cap)
            log_probs = target_logits - log_z[:, None]
    return log_probs.view(targets.shape)


@torch.no_grad()
def linear_most_likely(hidden: Tensor, head: Tensor, count: int, below: int, *, chunk: int,
                       soft_cap: float) -> tuple[Tensor, Tensor]:
    """The most likely tokens with ids below ``below``, and their log probabilities among all tokens.

    ``[T, count]`` int64 in descending order, and float32, for hidden states ``[T, D]``; arguments as in
    `linear_cross_entropy`.
    """
    positions, width = hidden.shape[0], _slice_width(hidden, head, chunk or max(1, hidden.shape[0]))
    log_z = torch.full((positions,), -torch.inf, dtype=torch.float32, device=hidden.device)
    best = torch.empty((positions, 0), dtype=torch.float32, device=hidden.device)
    tokens = torch.empty((positions, 0), dtype=torch.int64, device=hidden.device)
    with region(REGION):
        for start in range(0, head.shape[0], width):
            logits = _logits(hidden, head[start:start + width].to(hidden.dtype), soft_cap)
            # Tokens with ids from `below` on count in the normalizer, but cannot be chosen.
            eligible = logits[:, :max(0, below - start)]
            largest, index = eligible.topk(min(count, eligible.shape[1]))
            best, tokens = torch.cat([best, largest], 1), torch.cat([tokens, index + start], 1)
            best, order = best.topk(min(count, best.shape[1]))
            tokens = tokens.gather(1, order)
            log_z = torch.logaddexp(log_z, _normalizer_(logits))  # overwrites the logits
            del logits, eligible
    return tokens, best - log_z[:, None]


class _LinearCrossEntropy(torch.autograd.Function):
    """The loss and both its gradients, all in forward; backward only scales the gradients."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor, chunk: int,
                soft_cap: float, kernel: bool, shared: SharedGradient | None, products: torch.dtype) -> Tensor:
        hidden = hidden.detach().to(products)
        chunk = max(1, min(chunk, hidden.shape[0]))
        ctx.shared, needed = shared, ctx.needs_input_grad[:2]
        with region(REGION):
            if goes_over_positions(hidden, head, kernel):
                loss, ctx.d_hidden, ctx.d_head = _over_positions(
                    hidden, head.detach(), targets, weights, chunk, soft_cap, needed, kernel)
            else:
                loss, ctx.d_hidden, ctx.d_head = _over_vocabulary(
                    hidden, head.detach(), targets, weights, chunk, soft_cap, needed)
        return loss

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        # The context keeps no reference: autograd may then add other gradients to these in place.
        d_hidden, d_head = ctx.d_hidden, ctx.d_head
        ctx.d_hidden = ctx.d_head = None
        if d_hidden is not None:
            d_hidden.mul_(outer[0])
        if d_head is not None:
            d_head.mul_(outer[0])
            if ctx.shared is not None:
                ctx.shared.leave(d_head)
                d_head = None
        return d_hidden, d_head, *[None] * 7  # the other arguments have no gradient


def _over_positions(hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor, chunk: int, soft_cap: float,
                    needed: tuple[bool, bool], kernel: bool) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The loss, and its derivatives by ``hidden`` and ``head`` where ``needed``; ``chunk`` positions at a time."""
    needs_d_hidden, needs_d_head = needed
    loss = torch.zeros((), dtype=torch.float32, device=hidden.device)
    d_hidden = torch.empty_like(hidden) if needs_d_hidden else None
    d_head = _gradient_of(head) if needs_d_head else None
    block, used_head = _block_by_kernel if kernel else _block, head.to(hidden.dtype)
    for start in range(0, hidden.shape[0], chunk):
        rows = slice(start, start + chunk)
        log_probs, d_logits = block(hidden[rows], used_head, targets[rows], weights[rows], soft_cap, any(needed))
        loss -= (log_probs * weights[rows]).sum()
        if d_hidden is not None:
            torch.mm(d_logits, used_head, out=d_hidden[rows])
        if d_head is not None and head.dtype != hidden.dtype:
            add_product_(d_head, d_logits, hidden[rows])
        elif d_head is not None:
            d_head.addmm_(d_logits.t(), hidden[rows])
        del d_logits
    return loss, d_hidden, d_head


def _block(hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor, soft_cap: float,
           gradient: bool) -> tuple[Tensor, Tensor]:
    """``[C, K]`` log probabilities of a block's targets and, with ``gradient``, the loss's derivative by the logits.

    The loss is the sum of ``-weights * log_probs``. Without ``gradient`` the second result is meaningless.
    """
    logits = _logits(hidden, head, soft_cap)
    target_logits = logits.gather(1, targets)
    slope = _cap_slope(logits, soft_cap) if gradient else None
    log_z = _normalizer_(logits)
    if gradient:
        # `_normalizer_` has left exp(logits - top): one buffer serves logits, probabilities and their gradient.
        logits.mul_((weights.sum(-1) / logits.sum(-1))[:, None])
        logits.scatter_add_(1, targets, -weights)
        if slope is not None:
            logits.mul_(slope)
        logits = logits.to(hidden.dtype)
    return target_logits - log_z[:, None], logits


def _block_by_kernel(hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor, soft_cap: float,
                     gradient: bool) -> tuple[Tensor, Tensor]:
    """`_block` by the Triton kernel."""
    logits = torch.mm(hidden, head.t())
    target_logits = logits.gather(1, targets).float()
    if soft_cap:
        target_logits.div_(soft_cap).tanh_().mul_(soft_cap)
    log_z = block_loss_(logits, targets, weights, soft_cap, gradient)  # overwrites the logits with their gradient
    return target_logits - log_z[:, None], logits


def _over_vocabulary(hidden: Tensor, head: Tensor, targets: Tensor, weights: Tensor, chunk: int, soft_cap: float,
                     needed: tuple[bool, bool]) -> tuple[Tensor, Tensor | None, Tensor | None]:
    """The loss and the derivatives of `_over_positions`; a slice of the vocabulary at a time."""
    needs_d_hidden, needs_d_head = needed
    vocabulary, width = head.shape[0], _slice_width(hidden, head, chunk)
    log_z, target_logits = _normalizer_by_vocabulary(hidden, head, targets, width, soft_cap)
    loss = ((log_z[:, None] - target_logits) * weights).sum()
    if not any(needed):
        return loss, None, None
    half = hidden.dtype == torch.float16
    product = multiply if half else torch.mm
    # Divided by a power of two, the logits' gradients fit into float16. Products are multiplied by it again.
    power = power_above(weights.abs().sum(-1)) if half else 1.0
    weights = weights / power
    # Every slice adds to all positions: a float32 sum is rounded once, at the end.
    d_hidden = torch.zeros_like(hidden, dtype=torch.float32) if needs_d_hidden else None
    d_head = _gradient_of(head) if needs_d_head else None
    for start in range(0, vocabulary, width):
        part = head[start:start + width].to(hidden.dtype)
        logits = _logits(hidden, part, soft_cap)
        in_slice, index = _index_in_slice(targets, start, logits.shape[1])
        slope = _cap_slope(logits, soft_cap)
        logits.sub_(log_z[:, None]).exp_().mul_(weights.sum(-1, keepdim=True))
        logits.scatter_add_(1, index, -weights * in_slice)
        if slope is not None:
            logits.mul_(slope)
        d_logits = logits.to(hidden.dtype)
        del logits, slope
        if d_hidden is not None:
            d_hidden += product(d_logits, part)
        if d_head is not None and head.dtype != hidden.dtype:
            d_head[start:start + width] = product(d_logits.t(), hidden) * power
        elif d_head is not None:
            torch.mm(d_logits.t(), hidden, out=d_head[start:start + width])
        del d_logits, part
    if d_hidden is not None:
        d_hidden = d_hidden.mul_(power) if half else d_hidden.to(hidden.dtype)
    return loss, d_hidden, d_head


def _slice_width(hidden: Tensor, head: Tensor, chunk: int) -> int:
    """Vocabulary entries of a slice that takes as much memory as the logits of ``chunk`` positions."""
    # For 512 of 2048 positions it has 64,000 of 256,000 entries. A converted slice and its gradient count as well.
    converted = 2 * head.shape[1] if head.dtype != hidden.dtype else 0
    width = head.shape[0] * chunk // max(1, hidden.shape[0] + converted)
    # Matrix units read rows aligned to 16 bytes; others take up to three times as long on an H200.
    return max(1, width // ALIGNED * ALIGNED or width)


def _normalizer_by_vocabulary(hidden: Tensor, head: Tensor, targets: Tensor, width: int,
                              soft_cap: float) -> tuple[Tensor, Tensor]:
    """``[T]`` log of the sum of exponentials and ``[T, K]`` logits of the targets, slice by slice of the vocabulary."""
    log_z = torch.full((hidden.shape[0],), -torch.inf, dtype=torch.float32, device=hidden.device)
    target_logits = torch.zeros(targets.shape, dtype=torch.float32, device=hidden.device)
    for start in range(0, head.shape[0], width):
        logits = _logits(hidden, head[start:start + width].to(hidden.dtype), soft_cap)
        in_slice, index = _index_in_slice(targets, start, logits.shape[1])
        target_logits += logits.gather(1, index) * in_slice
        log_z = torch.logaddexp(log_z, _normalizer_(logits))
        del logits
    return log_z, target_logits


def _gradient_of(head: Tensor) -> Tensor:
    with region("gradients"):
        return torch.zeros_like(head)


def _logits(hidden_TD: Tensor, part_CD: Tensor, soft_cap: float) -> Tensor:
    """Float32 logits of a block, after the cap. Only a bfloat16 product is rounded before."""
    if hidden_TD.dtype == torch.float16:
        logits = multiply(hidden_TD, part_CD.t())
    else:
        logits = torch.mm(hidden_TD, part_CD.t()).float()
    return logits.div_(soft_cap).tanh_().mul_(soft_cap) if soft_cap else logits


def _cap_slope(logits: Tensor, soft_cap: float) -> Tensor | None:
    """Derivative of the cap, ``1 - tanh ** 2``, from capped logits; None without a cap."""
    return (logits / soft_cap).square_().neg_().add_(1.0) if soft_cap else None


def _normalizer_(logits_TC: Tensor) -> Tensor:
    """``[T]`` log of the sum of exponentials; leaves ``exp(logits - largest of the row)`` behind."""
    top = logits_TC.amax(-1)
    return logits_TC.sub_(top[:, None]).exp_().sum(-1).log_().add_(top)


def _index_in_slice(targets: Tensor, start: int, width: int) -> tuple[Tensor, Tensor]:
    """``[T, K]`` whether each target is in this slice of the vocabulary; and its index there, or any index if not."""
    in_slice = (targets >= start) & (targets < start + width)
    return in_slice, (targets - start).clamp(0, width - 1)
