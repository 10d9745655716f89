"""Kernels in Triton, imported on a machine with an NVIDIA card only. What they compute is said in `loss_kernel`.

Triton reads annotations as constants of the program, so arguments that are none have none.
"""

import triton
import triton.language as tl


@triton.jit
def capped(x, cap):
    """``cap * tanh(x / cap)``; tanh by the sigmoid, which Triton has on every card."""
    return cap * (2 * tl.sigmoid(2 * x / cap) - 1)


@triton.jit
def block_loss(logits, targets, weights, totals, log_z, stride, cap, VOCABULARY: tl.constexpr, TARGETS: tl.constexpr,
               CAPPED: tl.constexpr, GRADIENT: tl.constexpr, BLOCK: tl.constexpr):
    """One program a row of logits: once through it for the normalizer, once more for the gradient in its place."""
    # All rows together have more elements than 32 bits count.
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    top, total = -float("inf"), 0.0
    for start in range(0, VOCABULARY, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(logits + at, mask=at < VOCABULARY, other=-float("inf")).to(tl.float32)
        if CAPPED:
            x = tl.where(at < VOCABULARY, capped(x, cap), -float("inf"))
        # What was added up so far counts from the largest logit seen, which may rise.
        larger = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - larger) + tl.sum(tl.exp(x - larger))
        top = larger
    z = top + tl.log(total)
    tl.store(log_z + row, z)
    if GRADIENT:
        weight = tl.load(totals + row)
        for start in range(0, VOCABULARY, BLOCK):
            at = start + tl.arange(0, BLOCK)
            x = tl.load(logits + at, mask=at < VOCABULARY, other=0.0).to(tl.float32)
            if CAPPED:
                x = capped(x, cap)
            d = tl.exp(x - z) * weight
            for k in tl.static_range(TARGETS):
                d -= tl.where(at == tl.load(targets + row * TARGETS + k), tl.load(weights + row * TARGETS + k), 0.0)
            if CAPPED:
                d *= 1 - (x / cap) * (x / cap)
            tl.store(logits + at, d.to(logits.dtype.element_ty), mask=at < VOCABULARY)
