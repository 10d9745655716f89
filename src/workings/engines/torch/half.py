"""Products of float16 matrices that are added up in float32, for cards whose matrix units know no bfloat16.

Activations, the residual stream and norms stay float32; only the factors of a product are rounded to float16. Two
things keep float16's range (6e-8 to 65,504) from doing harm. Each row of a product's input is divided by a power of two
where it would overflow, as Gemma's activations do, and the result is multiplied by it: both are exact. Gradients are
multiplied by `LossScale`, and an update whose gradient overflowed is skipped.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from workings.engines.torch.triton.operations import wide_product

LARGEST = 2.0**15
"""Above this largest element a row is divided; sums of rounding stay far below 65,504."""
FIRST_SCALE, LEAST_SCALE, GROWTH_STEPS = 2.0**13, 1.0, 2000
"""The first scale is an eighth of `torch.amp.GradScaler`'s, with which the first updates of SmolLM2-135M (all weights)
and Gemma 3 270M (LoRA) overflow and are lost. Between two doublings are as many steps as there; below the least scale
nothing is gained."""


def row_scale(rows_TI: Tensor) -> Tensor:
    """``[T, 1]`` powers of two by which rows are divided so that float16 holds them; 1 where it does anyway."""
    top = rows_TI.abs().amax(-1, keepdim=True)
    return torch.exp2(torch.log2(top / LARGEST).ceil().clamp_min(0.0))


def multiply(left_TI: Tensor, right_IO: Tensor) -> Tensor:
    """``[T, O]`` float32 product of float16 matrices."""
    return wide_product(left_TI.t(), right_IO)


class _HalfProduct(torch.autograd.Function):
    """``x @ W.T`` with both factors in float16, twice instead of kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor | None, frozen: Any) -> Tensor:
        rows = x.reshape(-1, x.shape[-1])
        scale = row_scale(rows)
        narrow = (rows / scale).half()
        ctx.save_for_backward(narrow, scale, weight)
        ctx.frozen = frozen
        return (multiply(narrow, _in_half(ctx, weight).t()) * scale).view(*x.shape[:-1], -1)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        narrow, scale, weight = ctx.saved_tensors
        dy, d_x, d_weight = grads[0].reshape(-1, grads[0].shape[-1]), None, None
        if ctx.needs_input_grad[0]:
            d_x = multiply(dy.half(), _in_half(ctx, weight)).view(*grads[0].shape[:-1], -1)
        if ctx.needs_input_grad[1]:
            d_weight = wide_product((dy * scale).half(), narrow).to(weight.dtype)
        return d_x, d_weight, None


def _in_half(ctx: Any, weight: Tensor | None) -> Tensor:
    """The weight in float16, ``[out, in]``."""
    full: Tensor = ctx.frozen.full(torch.float16) if weight is None else weight.half()
    return full


def half_product(x: Tensor, weight: Tensor | None, frozen: Any = None) -> Tensor:
    """``[..., out]`` float32.

    Args:
        x: ``[..., in]`` float32.
        weight: ``[out, in]``; None for a frozen layer.
        frozen: layer whose ``full`` gives the weight ``[out, in]``.
    """
    y: Tensor = _HalfProduct.apply(x, weight, frozen)
    return y


@dataclass(frozen=True, kw_only=True)
class LossScale:
    """Dynamic loss scaling, by the rule of `torch.amp.GradScaler`."""

    value: float = FIRST_SCALE
    """Factor of the loss, and so of every gradient before the update."""
    good_steps: int = 0
    """Steps since the factor changed last."""
    skipped: int = 0
    """Updates that were skipped so far, because a gradient was not finite."""

    def after(self, norm: float) -> "LossScale":
        """The scale after a step whose gradient has this norm."""
        if not math.isfinite(norm):
            return LossScale(value=self.value / 2, skipped=self.skipped + 1)
        if self.good_steps + 1 == GROWTH_STEPS:
            return LossScale(value=self.value * 2, skipped=self.skipped)
        return replace(self, good_steps=self.good_steps + 1)

    @property
    def is_too_small(self) -> bool:
        """Whether overflows are not the scale's fault."""
        return self.value < LEAST_SCALE

    def tensor(self) -> Tensor:
        """``[3]`` float64, as it is stored."""
        return torch.tensor([self.value, self.good_steps, self.skipped], dtype=torch.float64)

    @classmethod
    def of_tensor(cls, stored: Tensor) -> "LossScale":
        """What `tensor` gave."""
        value, good_steps, skipped = stored.tolist()
        return cls(value=value, good_steps=int(good_steps), skipped=int(skipped))
