"""Products of float16 matrices that are added up in float32, for GPUs whose matrix units know no bfloat16.

Only the factors of a product are rounded to float16; all else stays float32. Float16 reaches from 6e-8 to 65,504. A
factor is first divided by a power of two that brings its largest element to the upper end of this range, and the
product is multiplied by it. Both are exact, so nothing overflows and no gradient vanishes, without a scale of the loss.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from workings.engines.torch.triton.operations import wide_product

LARGEST = 2.0**15
"""After the division the largest element of a factor is above half of this, and not above this."""
TINY = 2.0**-100
"""Smaller elements count as this large, so that a matrix of zeros is divided by a number."""


def power_above(x: Tensor, dim: int | None = None, limit: float = LARGEST) -> Tensor:
    """The power of two by which ``x``, or with ``dim=-1`` each row, is divided to have no element above ``limit``."""
    largest = torch.linalg.vector_norm(x, math.inf, dim, keepdim=dim is not None)
    return torch.exp2(torch.log2(largest.clamp_min(TINY) / limit).ceil())


def multiply(left_TI: Tensor, right_IO: Tensor) -> Tensor:
    """``[T, O]`` float32 product of float16 matrices."""
    return wide_product(left_TI.t(), right_IO)


class _HalfProduct(torch.autograd.Function):
    """``x @ W.T`` with both factors in float16. Backward converts the weight again, so no copy of it is kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, frozen: Any) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        scale = power_above(rows, -1)
        narrow = (rows / scale).half()
        ctx.save_for_backward(narrow, scale, weight)
        ctx.frozen = frozen
        return (multiply(narrow, _in_half(ctx, weight).t()) * scale).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        narrow, scale, weight = ctx.saved_tensors
        dy = grads[0].reshape(-1, grads[0].shape[-1])
        d_x = d_weight = None
        if ctx.needs_input_grad[0]:
            power = power_above(dy, -1)
            d_x = (multiply((dy / power).half(), _in_half(ctx, weight)) * power).view(*grads[0].shape[:-1], -1)
        if ctx.needs_input_grad[1]:
            dy = dy * scale
            power = power_above(dy)
            d_weight = wide_product((dy / power).half(), narrow).mul_(power).to(weight.dtype)
        return d_x, d_weight, None


def _in_half(ctx: Any, weight: Tensor | None) -> Tensor:
    """The weight in float16, ``[out, in]``."""
    full: Tensor = ctx.frozen.full(torch.float16) if weight is None else weight.half()
    return full


def half_product(x: Tensor, weight: Tensor | None, frozen: Any = None) -> Tensor:
    """``x @ W.T``: ``[..., out]`` float32 of ``[..., in]`` float32 and ``[out, in]``.

    ``frozen`` takes the place of a ``weight`` of None: a layer whose ``full`` makes the weight (`FourBitLinear`).
    """
    y: Tensor = _HalfProduct.apply(x, weight, frozen)
    return y


class BackwardScale:
    """Scales the gradient of a function that computes in float16: down before its backward, and up again after it."""

    def __init__(self) -> None:
        self.power = torch.ones(())

    def inputs(self, *tensors: Tensor) -> list[Tensor]:
        """The inputs. Their gradients are multiplied by what the output's gradient was divided by."""
        return [_with_hook(x.view_as(x), lambda gradient: gradient * self.power) for x in tensors]

    def output(self, y: Tensor) -> Tensor:
        """The output. Its gradient is divided so that its largest element is about 1."""
        return _with_hook(y, self._divide)

    def _divide(self, gradient: Tensor) -> Tensor:
        self.power = power_above(gradient, limit=1.0)
        return gradient / self.power


def _with_hook(x: Tensor, change: Callable[[Tensor], Tensor]) -> Tensor:
    """``x``, whose gradient passes through ``change``."""
    if x.requires_grad:
        x.register_hook(change)
    return x
