"""Modules whose weights are stored in one number format and used in another.

Where the two differ, a weight is cast when it is used and cast again in backward: one matrix exists in the other format
at a time, never the whole model. (Autocast knows no float32, and keeps its casts for backward.)
"""

from typing import Any

import torch
import torch.nn.functional as F
from peft.tuners.tuners_utils import BaseTunerLayer
from torch import Tensor, nn
from transformers.pytorch_utils import Conv1D

from workings.engines.torch.embedding import FixedTable, times_scale
from workings.engines.torch.four_bit import FourBitLinear
from workings.engines.torch.half import half_product
from workings.engines.torch.triton.operations import wide_product


class _Product(torch.autograd.Function):
    """``x @ W.T`` (or ``x @ W``) with W cast to x's dtype, twice instead of kept."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, transposed: bool, unrounded: bool) -> Tensor:
        # Only the stored weight is kept, which exists anyway; the cast one dies with this call.
        ctx.save_for_backward(x, weight)
        ctx.transposed, ctx.unrounded = transposed, unrounded
        wide = weight.to(x.dtype)
        return x @ wide if transposed else F.linear(x, wide)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None, None]:
        x, weight = ctx.saved_tensors
        dy, d_x, d_weight = grads[0], None, None
        if ctx.needs_input_grad[0]:
            wide = weight.to(dy.dtype)
            d_x = F.linear(dy, wide) if ctx.transposed else dy @ wide
        if ctx.needs_input_grad[1]:
            rows, out = x.reshape(-1, x.shape[-1]), dy.reshape(-1, dy.shape[-1])
            left, right = (rows, out) if ctx.transposed else (out, rows)
            # Summed over all positions, then rounded once to the format of computation, or not at all.
            d_weight = wide_product(left, right) if ctx.unrounded else (left.T @ right).to(weight.dtype)
        return d_x, d_weight, None, None


def product(x: Tensor, weight: Tensor, bias: Tensor | None, compute: torch.dtype, *, transposed: bool,
            unrounded: bool = False) -> Tensor:
    """``[..., out]`` in the format of computation, of float16 in float32.

    ``unrounded``: the weight's gradient is float32 from the start.
    """
    if compute == torch.float16:
        wide = half_product(x, weight, transposed=transposed)
        return wide if bias is None else wide + bias.float()
    y: Tensor = _Product.apply(x.to(compute), weight, transposed, unrounded)
    return y if bias is None else y + bias.to(compute)


class StoredLinear(nn.Linear):
    """A linear layer that computes in ``compute``, in any format of its weight."""

    compute: torch.dtype
    unrounded = False
    """Whether products of bf16 give the gradient of a float32 weight in float32, as a card can."""

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``x @ W.T + b``."""
        return product(input, self.weight, self.bias, self.compute, transposed=False,
                       unrounded=self.unrounded)


class StoredConv1D(Conv1D):  # type: ignore[misc]
    """GPT-2's linear layer, weight stored ``[in, out]``."""

    compute: torch.dtype

    def forward(self, x: Tensor) -> Tensor:
        """``x @ W + b``."""
        return product(x, self.weight, self.bias, self.compute, transposed=True)


class StoredEmbedding(nn.Embedding):
    """Rows of the table, cast after the lookup; Gemma's are multiplied after the cast."""

    compute: torch.dtype

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``[..., D]``."""
        # Looked up first: only the batch's rows are cast, not the vocabulary.
        rows = F.embedding(input, self.weight).to(self.compute)
        return times_scale(self, rows)


class StoredLayerNorm(nn.LayerNorm):
    """Layer norm computed in float32, as the RMS norms of transformers are."""

    compute: torch.dtype

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """Output of x's shape, in the format of computation."""
        # Means and variances of bfloat16 numbers need more digits than bfloat16 has.
        y = F.layer_norm(input.float(), self.normalized_shape, self.weight.float(), self.bias.float(), self.eps)
        return y.to(self.compute)


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

    Args:
        model: from `allocate`.
        compute: format of what passes from layer to layer.
        products: format of products: the same, or float16 where the rest is float32.
        unrounded: gradients of float32 matrices are float32 from the start (`StoredLinear.unrounded`).
    """
    for module in model.modules():
        weight = getattr(module, "weight", None)
        # peft's wrapper shows its base layer's weight as its own; the base layer comes by itself in this walk.
        # A table on the host casts the rows that travel.
        if isinstance(module, FourBitLinear):
            module.products = products
        is_product = isinstance(module, nn.Linear | Conv1D)
        if not isinstance(weight, Tensor) or weight.dtype == (products if is_product else compute) \
                or isinstance(module, BaseTunerLayer | FixedTable):
            continue
        stored = next((mine for theirs, mine in (
            (nn.Linear, StoredLinear), (Conv1D, StoredConv1D), (nn.Embedding, StoredEmbedding),
            (nn.LayerNorm, StoredLayerNorm), (nn.Conv1d, StoredConv1d)) if isinstance(module, theirs)), None)
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
