"""Kernels in Triton, imported on a machine with an NVIDIA card only; neighboring modules say what they compute.

Triton reads annotations as constants of the program, so other arguments are not annotated. Arithmetic is in float32.
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
    """A program for each row of logits: one pass for the normalizer, another overwrites the row with the gradient."""
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
        # The running maximum keeps every exponent at most zero, so nothing overflows with any logits.
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
            # The derivative of log z is the softmax, times the sum of the weights of the targets.
            d = tl.exp(x - z) * weight
            # Unrolled, because the number of targets is a constant of the program.
            for k in tl.static_range(TARGETS):
                d -= tl.where(at == tl.load(targets + row * TARGETS + k), tl.load(weights + row * TARGETS + k), 0.0)
            if CAPPED:
                # The slope of cap * tanh(x / cap), from the capped value itself.
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
    # Places behind the row's end were read as zeros, so the sum is that of the row.
    r = 1 / tl.sqrt(tl.sum(wide * wide, 1) / SIZE + epsilon)
    tl.store(y + at, (wide * r[:, None] * w[None, :]).to(y.dtype.element_ty), mask=there)
    tl.store(inverse + row, r, mask=row < rows)


@triton.jit
def norm_gradient(x, weight, inverse, dy, dx, parts, rows, SIZE: tl.constexpr, OFFSET: tl.constexpr,
                  BLOCK: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr, OF_WEIGHT: tl.constexpr):
    """A program for `TILES` tiles of rows, whose sum for the weight's gradient is one row of `parts`."""
    column = tl.arange(0, BLOCK)
    w = tl.load(weight + column, mask=column < SIZE, other=0.0).to(tl.float32) + OFFSET
    total = tl.zeros([BLOCK], dtype=tl.float32)
    for tile in range(TILES):
        # Tiles of a program follow each other, so its part of the weight's gradient is added in a fixed order.
        row = (tl.program_id(0).to(tl.int64) * TILES + tile) * TILE + tl.arange(0, TILE)
        at, there = row[:, None] * SIZE + column[None, :], (row < rows)[:, None] & (column < SIZE)[None, :]
        r = tl.load(inverse + row, mask=row < rows, other=0.0)[:, None]
        normed = tl.load(x + at, mask=there, other=0.0).to(tl.float32) * r
        d = tl.load(dy + at, mask=there, other=0.0).to(tl.float32)
        weighted = d * w[None, :]
        # A longer row has the same norm, so the part of the gradient along the row drops out.
        back = r * (weighted - normed * (tl.sum(weighted * normed, 1) / SIZE)[:, None])
        tl.store(dx + at, back.to(dx.dtype.element_ty), mask=there)
        if OF_WEIGHT:
            total += tl.sum(d * normed, 0)
    if OF_WEIGHT:
        tl.store(parts + tl.program_id(0) * SIZE + column, total, mask=column < SIZE)


@triton.jit
def bend(x, GELU: tl.constexpr):
    """Argument of a gate's sigmoid, and its slope: x, or the polynomial that makes ``x * sigmoid`` GELU by tanh."""
    if GELU:
        # 2 * sqrt(2 / pi), as 0.5 * (1 + tanh(z)) is sigmoid(2 z); and 0.134145 is 3 * 0.044715.
        return 1.5957691216057308 * (x + 0.044715 * x * x * x), 1.5957691216057308 * (1 + 0.134145 * x * x)
    return x, x * 0 + 1


@triton.jit
def gate(left, right, y, count, GELU: tl.constexpr, BLOCK: tl.constexpr):
    """``left * sigmoid(bend(left)) * right``."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    a = tl.load(left + at, mask=at < count, other=0.0).to(tl.float32)
    b = tl.load(right + at, mask=at < count, other=0.0).to(tl.float32)
    bent, _ = bend(a, GELU)
    tl.store(y + at, (a * tl.sigmoid(bent) * b).to(y.dtype.element_ty), mask=at < count)


@triton.jit
def gate_gradient(left, right, dy, d_left, d_right, count, GELU: tl.constexpr, BLOCK: tl.constexpr):
    """The gradients by both sides of `gate`."""
    at = tl.program_id(0).to(tl.int64) * BLOCK + tl.arange(0, BLOCK)
    there = at < count
    a = tl.load(left + at, mask=there, other=0.0).to(tl.float32)
    b = tl.load(right + at, mask=there, other=0.0).to(tl.float32)
    d = tl.load(dy + at, mask=there, other=0.0).to(tl.float32)
    bent, slope = bend(a, GELU)
    open_ = tl.sigmoid(bent)
    # With s = sigmoid(bend(a)): the derivative of a s is s (1 + a (1 - s) slope).
    tl.store(d_left + at, (d * b * open_ * (1 + a * (1 - open_) * slope)).to(d_left.dtype.element_ty), mask=there)
    tl.store(d_right + at, (d * a * open_).to(d_right.dtype.element_ty), mask=there)


@triton.jit
def rotate(x, cos, sin, y, heads, positions, row_stride, head_stride, position_stride, angle_stride,
           HALF: tl.constexpr, BLOCK: tl.constexpr, HEADS: tl.constexpr, BACK: tl.constexpr):
    """A program for each position: rotates all its heads by the position's angles, or back."""
    row, position = tl.program_id(0) // positions, tl.program_id(0) % positions
    column, head = tl.arange(0, BLOCK), tl.arange(0, HEADS)
    at = (row.to(tl.int64) * row_stride + position.to(tl.int64) * position_stride
          + head[:, None].to(tl.int64) * head_stride + column[None, :])
    there = (head < heads)[:, None] & (column < HALF)[None, :]
    # A stride of zero reads the same angles for every row of the batch.
    angle = row.to(tl.int64) * angle_stride + position * 2 * HALF + column
    c1 = tl.load(cos + angle, mask=column < HALF, other=0.0).to(tl.float32)[None, :]
    c2 = tl.load(cos + angle + HALF, mask=column < HALF, other=0.0).to(tl.float32)[None, :]
    s1 = tl.load(sin + angle, mask=column < HALF, other=0.0).to(tl.float32)[None, :]
    s2 = tl.load(sin + angle + HALF, mask=column < HALF, other=0.0).to(tl.float32)[None, :]
    a = tl.load(x + at, mask=there, other=0.0).to(tl.float32)
    b = tl.load(x + at + HALF, mask=there, other=0.0).to(tl.float32)
    if BACK:
        # Both halves have their own cosines and sines: models may rotate only a part of a head.
        first, second = a * c1 + b * s2, b * c2 - a * s1
    else:
        first, second = a * c1 - b * s1, b * c2 + a * s2
    tl.store(y + at, first.to(y.dtype.element_ty), mask=there)
    tl.store(y + at + HALF, second.to(y.dtype.element_ty), mask=there)


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
    # Integers: their sum does not depend on the order in which programs finish.
    tl.atomic_add(changed, tl.sum(((new != p) & there).to(tl.int64)))
