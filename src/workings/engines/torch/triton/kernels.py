"""Kernels in Triton, imported on machines with an NVIDIA GPU only. `operations` has a plain version of each.

A launch runs a kernel many times: `tl.program_id(0)` numbers these programs, and each computes some rows or elements.
Tensors come as addresses. A block has a power of two of elements, and a mask leaves out those beyond the tensor's end.
Only constants of a program are annotated, as Triton demands. Arithmetic is in float32.
"""

import triton
import triton.language as tl


@triton.jit
def capped(x, cap):
    """``cap * tanh(x / cap)``, with tanh by the sigmoid."""
    return cap * (2 * tl.sigmoid(2 * x / cap) - 1)


@triton.jit
def block_loss(logits, targets, weights, totals, log_z, stride, cap, VOCABULARY: tl.constexpr, TARGETS: tl.constexpr,
               CAPPED: tl.constexpr, GRADIENT: tl.constexpr, BLOCK: tl.constexpr):
    """A program per row of logits: one pass for the normalizer, another overwrites the row with the gradient."""
    # int64: all rows together have more elements than 32 bits count.
    row = tl.program_id(0).to(tl.int64)
    logits += row * stride
    top, total = -float("inf"), 0.0  # the largest logit so far, and the sum of exp(logit - top)
    for start in range(0, VOCABULARY, BLOCK):
        token = start + tl.arange(0, BLOCK)
        x = tl.load(logits + token, mask=token < VOCABULARY, other=-float("inf")).to(tl.float32)
        if CAPPED:
            x = tl.where(token < VOCABULARY, capped(x, cap), -float("inf"))
        larger = tl.maximum(top, tl.max(x))
        total = total * tl.exp(top - larger) + tl.sum(tl.exp(x - larger))
        top = larger
    z = top + tl.log(total)
    tl.store(log_z + row, z)
    if GRADIENT:
        weight = tl.load(totals + row)
        for start in range(0, VOCABULARY, BLOCK):
            token = start + tl.arange(0, BLOCK)
            x = tl.load(logits + token, mask=token < VOCABULARY, other=0.0).to(tl.float32)
            if CAPPED:
                x = capped(x, cap)
            dx = tl.exp(x - z) * weight
            for k in tl.static_range(TARGETS):
                target, its_weight = tl.load(targets + row * TARGETS + k), tl.load(weights + row * TARGETS + k)
                dx -= tl.where(token == target, its_weight, 0.0)
            if CAPPED:
                dx *= 1 - (x / cap) * (x / cap)
            tl.store(logits + token, dx.to(logits.dtype.element_ty), mask=token < VOCABULARY)


@triton.jit
def norm(x, weight, y, inverse, rows, epsilon, SIZE: tl.constexpr, OFFSET: tl.constexpr, BLOCK: tl.constexpr,
         TILE: tl.constexpr):
    """A program for `TILE` rows: each is divided by the root of its mean square and multiplied by the weight."""
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.arange(0, BLOCK)
    index, inside = row[:, None] * SIZE + column[None, :], (row < rows)[:, None] & (column < SIZE)[None, :]
    wide = tl.load(x + index, mask=inside, other=0.0).to(tl.float32)
    factor = tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32) + OFFSET
    inverse_root = 1 / tl.sqrt(tl.sum(wide * wide, 1) / SIZE + epsilon)
    tl.store(y + index, (wide * inverse_root[:, None] * factor[None, :]).to(y.dtype.element_ty), mask=inside)
    tl.store(inverse + row, inverse_root, mask=row < rows)


@triton.jit
def norm_gradient(x, weight, inverse, dy, dx, parts, rows, SIZE: tl.constexpr, OFFSET: tl.constexpr,
                  BLOCK: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr, OF_WEIGHT: tl.constexpr):
    """A program for `TILES` tiles of rows, which writes their part of the weight's gradient to one row of `parts`."""
    column = tl.arange(0, BLOCK)
    factor = tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32) + OFFSET
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        row = (tl.program_id(0).to(tl.int64) * TILES + tile) * TILE + tl.arange(0, TILE)
        index, inside = row[:, None] * SIZE + column[None, :], (row < rows)[:, None] & (column < SIZE)[None, :]
        inverse_root = tl.load(inverse + row, mask=row < rows, other=0.0)[:, None]
        normed = tl.load(x + index, mask=inside, other=0.0).to(tl.float32) * inverse_root
        d = tl.load(dy + index, mask=inside, other=0.0).to(tl.float32)
        weighted = d * factor[None, :]
        # Without the part along the row: a longer row has the same normed values.
        back = inverse_root * (weighted - normed * (tl.sum(weighted * normed, 1) / SIZE)[:, None])
        tl.store(dx + index, back.to(dx.dtype.element_ty), mask=inside)
        if OF_WEIGHT:
            total += tl.sum(d * normed, 0)
    if OF_WEIGHT:
        tl.store(parts + tl.program_id(0) * SIZE + column, total, mask=column < SIZE)


@triton.jit
def adamw(param, grad, mean, square, changed, scale, count, kept, corrected_rate, beta1, rest1, beta2, rest2,
          root_correction, epsilon, BLOCK: tl.constexpr):
    """The update of a block of elements, in place, and the number of elements that changed."""
    # `rest1` and `rest2` are 1 - beta1 and 1 - beta2. `operations.adamw` computes the other factors.
    index = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    inside = index < count
    p = tl.load(param + index, mask=inside, other=0.0)
    g = tl.load(grad + index, mask=inside, other=0.0) * tl.load(scale)
    m = beta1 * tl.load(mean + index, mask=inside, other=0.0) + rest1 * g
    v = beta2 * tl.load(square + index, mask=inside, other=0.0) + rest2 * g * g
    new = kept * p - corrected_rate * m / (tl.sqrt(v) * root_correction + epsilon)
    tl.store(param + index, new, mask=inside)
    tl.store(mean + index, m, mask=inside)
    tl.store(square + index, v, mask=inside)
    tl.atomic_add(changed, tl.sum(((new != p) & inside).to(tl.int64)))
