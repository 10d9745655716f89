"""Kernels in Triton, imported on machines with an NVIDIA card only. `operations` has a plain version of each.

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
    top, total = -float("inf"), 0.0
    for start in range(0, VOCABULARY, BLOCK):
        at = start + tl.arange(0, BLOCK)
        x = tl.load(logits + at, mask=at < VOCABULARY, other=-float("inf")).to(tl.float32)
        if CAPPED:
            x = tl.where(at < VOCABULARY, capped(x, cap), -float("inf"))
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


@triton.jit
def norm(x, weight, y, inverse, rows, epsilon, SIZE: tl.constexpr, OFFSET: tl.constexpr, BLOCK: tl.constexpr,
         TILE: tl.constexpr):
    """A program for `TILE` rows: each is divided by the root of its mean square and multiplied by the weight."""
    row = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    column = tl.arange(0, BLOCK)
    at, there = row[:, None] * SIZE + column[None, :], (row < rows)[:, None] & (column < SIZE)[None, :]
    wide = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
    w = tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32) + OFFSET
    r = 1 / tl.sqrt(tl.sum(wide * wide, 1) / SIZE + epsilon)
    tl.store(y + at, (wide * r[:, None] * w[None, :]).to(y.dtype.element_ty), mask=there)
    tl.store(inverse + row, r, mask=row < rows)


@triton.jit
def norm_gradient(x, weight, inverse, dy, dx, parts, rows, SIZE: tl.constexpr, OFFSET: tl.constexpr,
                  BLOCK: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr, OF_WEIGHT: tl.constexpr):
    """A program for `TILES` tiles of rows, which writes their part of the weight's gradient to one row of `parts`."""
    column = tl.arange(0, BLOCK)
    w = tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32) + OFFSET
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        row = (tl.program_id(0).to(tl.int64) * TILES + tile) * TILE + tl.arange(0, TILE)
        at, there = row[:, None] * SIZE + column[None, :], (row < rows)[:, None] & (column < SIZE)[None, :]
        r = tl.load(inverse + row, mask=row < rows, other=0.0)[:, None]
        normed = tl.load(x + at, mask=there, other=0.0).to(tl.float32) * r
        d = tl.load(dy + at, mask=there, other=0.0).to(tl.float32)
        weighted = d * w[None, :]
        # Without the part along the row: a longer row has the same normed values.
        back = r * (weighted - normed * (tl.sum(weighted * normed, 1) / SIZE)[:, None])
        tl.store(dx + at, back.to(dx.dtype.element_ty), mask=there)
        if OF_WEIGHT:
            total += tl.sum(d * normed, 0)
    if OF_WEIGHT:
        tl.store(parts + tl.program_id(0) * SIZE + column, total, mask=column < SIZE)


@triton.jit
def adamw(param, grad, mean, square, changed, scale, count, kept, rate, beta1, rest1, beta2, rest2, root, epsilon,
          BLOCK: tl.constexpr):
    """The update of a block of elements, in place, and the number of elements that changed."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    p = tl.load(param + at, mask=there, other=0.0)
    g = tl.load(grad + at, mask=there, other=0.0) * tl.load(scale)
    m = beta1 * tl.load(mean + at, mask=there, other=0.0) + rest1 * g
    v = beta2 * tl.load(square + at, mask=there, other=0.0) + rest2 * g * g
    # `kept` is 1 - rate * decay; the bias corrections are in `rate` and `root` (see `operations.adamw`).
    new = kept * p - rate * m / (tl.sqrt(v) * root + epsilon)
    tl.store(param + at, new, mask=there)
    tl.store(mean + at, m, mask=there)
    tl.store(square + at, v, mask=there)
    tl.atomic_add(changed, tl.sum(((new != p) & there).to(tl.int64)))
