"""Modules whose weights are stored in one number format and used in another.

A weight is cast when it is used, and cast again in backward. So only one matrix exists in the other format at a time.
(PyTorch's autocast keeps its casts for backward.)
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workings.engines.torch.embedding import FixedTable, StoredEmbedding
from workings.engines.torch.four_bit import FourBitLinear
from workings.engines.torch.half import half_product
from workings.engines.torch.triton.operations import wide_product


class _Product(torch.autograd.Function):
    """``x @ W.T`` with W cast to x's dtype, in forward and again in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, unrounded: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.unrounded = unrounded
        return F.linear(x, weight.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        dy = grads[0]
        d_x = d_weight = None
        if ctx.needs_input_grad[0]:
            d_x = dy @ weight.to(dy.dtype)
        if ctx.needs_input_grad[1]:
            x_rows, dy_rows = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
            d_weight = wide_product(dy_rows, x_rows) if ctx.unrounded else (dy_rows.T @ x_rows).to(weight.dtype)
        return d_x, d_weight, None


class StoredLinear(nn.Linear):
    """A linear layer that computes in ``compute``, whatever the format of its weight."""

    compute: torch.dtype
    unrounded = False
    """Whether the gradient of a float32 weight is a float32 product of bf16 factors, as a GPU can compute it."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``x @ W.T + b`` in ``compute``; in float32 if that is float16."""
        if self.compute == torch.float16:
            y = half_product(input, self.weight)
        else:
            y = _Product.apply(input.to(self.compute), self.weight, self.unrounded)
        bias = self._parameters["bias"]
        return y if bias is None else y + bias.to(y.dtype)


class StoredConv1d(nn.Conv1d):
    """A filter along positions that computes in ``compute``, whatever the format of its weight."""

    compute: torch.dtype

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``[B, C, S]``."""
        return self._conv_forward(input.to(self.compute), self.weight.to(self.compute), self.bias)


def _to_compute(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    """Forward hook of RMS norms, whose float32 weight makes a float32 output in some families."""
    return output.to(module.compute)  # type: ignore[arg-type]


def mix_formats(model: nn.Module, compute: torch.dtype, products: torch.dtype, *, unrounded: bool = False) -> None:
    """Let every layer of a transformers model compute in ``compute`` from weights stored in another format.

    Products are in ``products``: the same format, or float16 where the rest is float32. With ``unrounded`` gradients of
    float32 matrices are float32 from the start (`StoredLinear.unrounded`).
    """
    for module in model.modules():
        if isinstance(module, FourBitLinear):
            module.products = products
        # peft's wrapper shows its base layer's weight as its own. A table on the host casts the rows that travel.
        if hasattr(module, "base_layer") or isinstance(module, FixedTable):
            continue
        weight = getattr(module, "weight", None)
        used_in = products if isinstance(module, nn.Linear) else compute
        if not isinstance(weight, Tensor) or weight.dtype == used_in:
            continue
        # The class is exchanged, not the module: names, weights and ties stay.
        if isinstance(module, nn.Linear):
            module.__class__ = StoredLinear
            module.unrounded = unrounded and weight.dtype == torch.float32  # type: ignore[assignment]
        elif isinstance(module, nn.Embedding):
            module.__class__ = StoredEmbedding
        elif isinstance(module, nn.Conv1d):
            module.__class__ = StoredConv1d
        elif type(module).__name__.endswith("RMSNorm"):
            # transformers has a class of RMS norms for each family, so a hook instead of a subclass.
            module.register_forward_hook(_to_compute)
        else:
            continue
        module.compute = used_in  # type: ignore[assignment]
