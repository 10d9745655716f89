"""Modules whose weights are stored in one number format and used in another.

Where the two differ, a weight is cast when it is used and cast again in backward: one matrix exists in the other format
at a time, never the whole model. (Autocast knows no float32, and keeps its casts for backward.)
"""

from typing import Any

import torch
import torch.nn.functional as F
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn

from workings.engines.torch.embedding import FixedTable, StoredEmbedding
from workings.engines.torch.four_bit import FourBitLinear
from workings.engines.torch.half import half_product
from workings.engines.torch.triton.operations import wide_product


class _Product(torch.autograd.Function):
    """``x @ W.T`` with W cast to x's dtype, twice instead of kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, unrounded: bool) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.unrounded = unrounded
        return F.linear(x, weight.to(x.dtype))

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight = ctx.saved_tensors
        dy, d_x, d_weight = grads[0], None, None
        if ctx.needs_input_grad[0]:
            d_x = dy @ weight.to(dy.dtype)
        if ctx.needs_input_grad[1]:
            rows, out = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
            # Summed over all positions, then rounded once to the format of computation, or not at all.
            d_weight = wide_product(out, rows) if ctx.unrounded else (out.T @ rows).to(weight.dtype)
        return d_x, d_weight, None


class StoredLinear(nn.Linear):
    """A linear layer that computes in ``compute``, in any format of its weight."""

    compute: torch.dtype
    unrounded = False
    """Whether products of bf16 give the gradient of a float32 weight in float32, as a card can."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``x @ W.T + b`` in the format of computation, of float16 in float32."""
        if self.compute == torch.float16:
            y, bias_format = half_product(input, self.weight), torch.float32
        else:
            y, bias_format = _Product.apply(input.to(self.compute), self.weight, self.unrounded), self.compute
        bias = self._parameters["bias"]
        return y if bias is None else y + bias.to(bias_format)


class StoredConv1d(nn.Conv1d):
    """A filter along positions that computes in ``compute``, in any format of its weight."""

    compute: torch.dtype

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``[B, C, S]``."""
        return self._conv_forward(input.to(self.compute), self.weight.to(self.compute), self.bias)


def _to_compute(module: nn.Module, inputs: Any, output: Tensor) -> Tensor:
    """Forward hook of RMS norms: a float32 weight makes a float32 output in some families."""
    return output.to(module.compute)  # type: ignore[arg-type]


def mix_formats(model: nn.Module, compute: torch.dtype, products: torch.dtype, *, unrounded: bool = False) -> None:
    """Let every layer of a transformers model compute in ``compute`` from weights stored in another format.

    Products are in ``products``: the same format, or float16 where the rest is float32. With ``unrounded`` gradients of
    float32 matrices are float32 from the start (`StoredLinear.unrounded`).
    """
    for module in model.modules():
        weight = getattr(module, "weight", None)
        # peft's wrapper shows its base layer's weight as its own; the base layer comes by itself in this walk.
        # A table on the host casts the rows that travel.
        if isinstance(module, FourBitLinear):
            module.products = products
        is_product = isinstance(module, nn.Linear)
        if not isinstance(weight, Tensor) or weight.dtype == (products if is_product else compute) \
                or isinstance(module, BaseTunerLayer | FixedTable):
            continue
        stored = next((mine for theirs, mine in (
            (nn.Linear, StoredLinear), (nn.Embedding, StoredEmbedding), (nn.Conv1d, StoredConv1d))
            if isinstance(module, theirs)), None)
        if stored is not None:
            # The class is exchanged, not the module: names, weights and ties stay.
            module.__class__ = stored
            module.compute = products if is_product else compute  # type: ignore[assignment]
            if stored is StoredLinear:
                module.unrounded = unrounded and weight.dtype == torch.float32  # type: ignore[assignment]
        elif type(module).__name__.endswith("RMSNorm"):
            module.compute = compute  # type: ignore[assignment]
            # RMS norms of transformers are their own classes for each family, so a hook and no subclass.
            module.register_forward_hook(_to_compute)
