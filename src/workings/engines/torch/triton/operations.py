"""Norm, AdamW's update and the loss of a block of logits: on a GPU by one kernel each, on a CPU by plain operations.

Each function allocates its results, and `_fill` computes them by a kernel or by the nested function `plain`, which
computes the same.

Shape suffixes: R rows, D elements of a row or width, C positions of a product or a block, V outputs or vocabulary, K
targets of a position.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import is_fake
from torch.autograd import Function

TILES = 16
"""Tiles of rows per program of a norm's gradient, which adds up the weight's gradient over them in a fixed order."""
ELEMENTS = 4096
"""Elements that one program of AdamW updates."""


def _power_of_two(size: int) -> int:
    """The smallest power of two that is not below ``size``."""
    return 1 << max(0, size - 1).bit_length()


def _fill(x: Tensor, kernel: Callable[[Any], None], plain: Callable[[], None]) -> None:
    """Compute results on the device of ``x``; in a trace (fake tensors) nothing, since kernels take no other memory."""
    if x.is_cuda:
        from workings.engines.torch.triton import kernels  # only machines with a GPU have Triton

        kernel(kernels)
    elif not is_fake(x):
        plain()


def _rows(x: Tensor) -> Tensor:
    """``[R, D]`` of a dense tensor, in the order of memory."""
    return x.as_strided((x.numel() // x.shape[-1], x.shape[-1]), (x.shape[-1], 1), x.storage_offset())


def norm(x: Tensor, weight: Tensor, offset: int, epsilon: float) -> Tensor:
    """``x / root(mean(x * x) + epsilon) * (weight + offset)`` over the last axis, in the format of x."""
    y: Tensor = _Norm.apply(x, weight, offset, epsilon)
    return y


class _Norm(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, offset: int, epsilon: float) -> Tensor:
        # Rows must be in order in one piece of memory. Heads may be before positions in `x`, and after them in memory.
        if not x.is_contiguous() and not (x.dim() == 4 and x.transpose(1, 2).is_contiguous()):
            x = x.contiguous()
        y, size, rows = torch.empty_like(x), x.shape[-1], x.numel() // x.shape[-1]
        inverse_R = torch.empty(rows, dtype=torch.float32, device=x.device)
        columns, tile_rows, warps = _tile(size)
        programs = -(-rows // tile_rows)  # rounded up

        def plain() -> None:
            wide = _rows(x).float()
            inverse_R.copy_(wide.square().mean(-1).add_(epsilon).rsqrt_())
            _rows(y).copy_(wide * inverse_R[:, None] * (weight.float() + offset))

        _fill(x, lambda kernels: kernels.norm[(programs,)](
            x, weight, y, inverse_R, rows, epsilon, SIZE=size, OFFSET=offset, BLOCK=columns, TILE=tile_rows,
            num_warps=warps), plain)
        ctx.save_for_backward(x, weight, inverse_R)
        ctx.offset = offset
        return y

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, ...]:
        x, weight, inverse_R = ctx.saved_tensors
        dy, dx = outer[0], torch.empty_like(x)
        if dy.stride() != x.stride():
            dy = torch.empty_like(x, dtype=dy.dtype).copy_(dy)
        size, rows = x.shape[-1], inverse_R.shape[0]
        columns, tile_rows, warps = _tile(size)
        programs = -(-rows // (tile_rows * TILES))  # rounded up
        of_weight = ctx.needs_input_grad[1]
        # A row per program and one sum at the end: atomics would add in another order each time.
        parts = torch.empty((programs if of_weight else 1, size), dtype=torch.float32, device=x.device)

        def plain() -> None:
            normed, d = _rows(x).float() * inverse_R[:, None], _rows(dy).float()
            weighted = d * (weight.float() + ctx.offset)
            back = weighted - normed * (weighted * normed).mean(-1, keepdim=True)
            _rows(dx).copy_(back * inverse_R[:, None])
            parts.zero_()[0] = (d * normed).sum(0)

        _fill(x, lambda kernels: kernels.norm_gradient[(programs,)](
            x, weight, inverse_R, dy, dx, parts, rows, SIZE=size, OFFSET=ctx.offset, BLOCK=columns, TILE=tile_rows,
            TILES=TILES, OF_WEIGHT=of_weight, num_warps=warps), plain)
        d_weight = parts.sum(0).to(weight.dtype) if of_weight else None
        return dx, d_weight, None, None


def _tile(size: int) -> tuple[int, int, int]:
    """Columns and rows that a program has in registers at a time, and its warps; wide rows need more of these."""
    columns = _power_of_two(size)
    return columns, max(1, 1024 // columns), min(16, max(4, columns // 512))


def wide_product(left_CV: Tensor, right_CD: Tensor) -> Tensor:
    """``left.T @ right`` of bf16 matrices as a float32 matrix ``[V, D]``, never rounded to bf16."""
    if left_CV.is_cuda:
        return torch.mm(left_CV.t(), right_CD, out_dtype=torch.float32)
    if is_fake(left_CV):
        return left_CV.new_empty((left_CV.shape[1], right_CD.shape[1]), dtype=torch.float32)
    return left_CV.t().float() @ right_CD.float()


def adamw(param: Tensor, grad: Tensor, mean: Tensor, square: Tensor, *, scale: Tensor | float, step: int, rate: float,
          beta1: float, beta2: float, epsilon: float, decay: float) -> Tensor:
    """Update a float32 parameter and its moments in place; returns how many elements changed, an int64 scalar.

    All tensors are dense and flat. The gradient is multiplied by ``scale``, ``step`` counts from 1, and ``epsilon`` is
    added to the root after the correction.
    """
    changed = torch.zeros((), dtype=torch.int64, device=param.device)
    # `full` does not make the host wait for the GPU, as a copy from the host does.
    factor = scale if isinstance(scale, Tensor) else torch.full((), scale, device=param.device)
    kept = 1 - rate * decay
    # Adam's bias corrections, computed here so that the kernel computes no powers.
    corrected_rate, root_correction = rate / (1 - beta1 ** step), (1 - beta2 ** step) ** -0.5

    def plain() -> None:
        g = grad * factor
        mean.mul_(beta1).add_(g, alpha=1 - beta1)
        square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        new = kept * param - corrected_rate * mean / (square.sqrt() * root_correction + epsilon)
        changed.add_((new != param).sum())
        param.copy_(new)

    count = param.numel()
    programs = -(-count // ELEMENTS)  # rounded up
    _fill(param, lambda kernels: kernels.adamw[(programs,)](
        param, grad, mean, square, changed, factor, count, kept, corrected_rate, beta1, 1 - beta1, beta2, 1 - beta2,
        root_correction, epsilon, BLOCK=ELEMENTS, num_warps=8), plain)
    return changed


LOSS_BLOCK, LOSS_WARPS = 8192, 16
"""Logits that one program has in registers at a time, and its warps: the fastest on an H200."""


def block_loss_(logits_CV: Tensor, targets_CK: Tensor, weights_CK: Tensor, soft_cap: float, gradient: bool) -> Tensor:
    """``[C]`` float32: log of the sum of exponentials of each row of logits, which are capped first (0: no cap).

    With ``gradient`` the logits are replaced by the derivative of ``sum(weights * -log p(target))``. Arithmetic is in
    float32, rounded once to the format of the logits. The kernel reads logits twice and writes them once; PyTorch's
    operations do so about ten times.
    """
    rows, vocabulary = logits_CV.shape
    log_z = logits_CV.new_empty(rows, dtype=torch.float32)
    block = min(LOSS_BLOCK, _power_of_two(vocabulary))

    def plain() -> None:
        wide = logits_CV.float()
        capped = soft_cap * torch.tanh(wide / soft_cap) if soft_cap else wide
        log_z.copy_(torch.logsumexp(capped, -1))
        if gradient:
            d_logits = (capped - log_z[:, None]).exp_() * weights_CK.sum(-1, keepdim=True)
            d_logits.scatter_add_(1, targets_CK, -weights_CK)
            logits_CV.copy_(d_logits * (1 - (capped / soft_cap).square()) if soft_cap else d_logits)

    _fill(logits_CV, lambda kernels: kernels.block_loss[(rows,)](
        logits_CV, targets_CK, weights_CK, weights_CK.sum(-1), log_z, logits_CV.stride(0), soft_cap,
        VOCABULARY=vocabulary, TARGETS=targets_CK.shape[1], CAPPED=soft_cap > 0, GRADIENT=gradient, BLOCK=block,
        num_warps=max(1, LOSS_WARPS * block // LOSS_BLOCK)), plain)
    return log_z


def add_product_(total_VD: Tensor, left_CV: Tensor, right_CD: Tensor) -> None:
    """Add ``left.T @ right`` of bf16 matrices to a float32 matrix; the product is never rounded to bf16."""
    if total_VD.is_cuda:
        torch.ops.aten.addmm.dtype_out(total_VD, left_CV.t(), right_CD, torch.float32, out=total_VD)
    elif not is_fake(total_VD):
        total_VD.addmm_(left_CV.t().float(), right_CD.float())
