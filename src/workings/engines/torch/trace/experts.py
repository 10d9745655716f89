"""Products of experts in float32 for a trace: PyTorch says what its grouped product gives for bfloat16 alone."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor


class _Grouped(torch.autograd.Function):
    """Shapes of `torch.nn.functional.grouped_mm` and of its derivatives; no numbers."""

    @staticmethod
    def forward(ctx: Any, x_TI: Tensor, weight_EIO: Tensor) -> Tensor:
        ctx.save_for_backward(x_TI, weight_EIO)
        return x_TI.new_empty(x_TI.shape[0], weight_EIO.shape[2])

    @staticmethod
    def backward(ctx: Any, *outer: Tensor) -> tuple[Tensor | None, Tensor | None]:
        x, weight = ctx.saved_tensors
        return (torch.empty_like(x) if ctx.needs_input_grad[0] else None,
                torch.empty_like(weight) if ctx.needs_input_grad[1] else None)


@contextmanager
def grouped_products(dtype: torch.dtype) -> Iterator[None]:
    """Inside, grouped products of this format can be traced."""
    real = torch.nn.functional.grouped_mm
    if dtype == torch.bfloat16:
        yield
        return

    def grouped(x_TI: Tensor, weight_EIO: Tensor, *, offs: Tensor) -> Tensor:
        del offs
        out: Tensor = _Grouped.apply(x_TI, weight_EIO)
        return out

    torch.nn.functional.grouped_mm = grouped  # type: ignore[assignment]
    try:
        yield
    finally:
        torch.nn.functional.grouped_mm = real
