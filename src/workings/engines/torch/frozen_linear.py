"""Linear layers whose frozen weight is stored in fewer bits: what all have in common, and the one in eight bits."""

from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workings.engines.torch.half import half_product

STEPS = 127
"""Codes of eight bits go from minus this to this."""


class FrozenLinear(nn.Linear):
    """A linear layer with ``codes`` and scales in place of its weight."""

    codes: Tensor
    absmax: Tensor
    rounded_to: torch.dtype
    """Format that a weight is rounded to before it is quantized: that which it would be stored in."""
    products = torch.float32
    """float16: products are of that format (`workings.engines.torch.matmul.mix_formats`); else of their input's."""

    def rounded(self, weight: Tensor) -> Tensor:
        """A weight in float32 on this layer's device, rounded to the format that it would be stored in.

        The JAX engine rounds as well, so that one file gives both the same codes, in any format.
        """
        return weight.to(device=self.codes.device, dtype=self.rounded_to).float()

    def store(self, weight: Tensor) -> None:
        """Quantize a weight ``[out, in]`` into this layer."""
        raise NotImplementedError

    def full(self, dtype: torch.dtype) -> Tensor:
        """The weight ``[out, in]`` that the codes represent."""
        raise NotImplementedError


class EightBitLinear(FrozenLinear):
    """Codes ``[out, in]`` (int8) and a scale a row, by the same rule as `workings.engines.jax.int8`, to the bit."""

    def store(self, weight: Tensor) -> None:
        """Quantize a weight ``[out, in]`` into this layer."""
        wide = self.rounded(weight)
        absmax = wide.abs().amax(-1, keepdim=True)
        self.absmax.copy_(absmax)
        # A row of zeros would divide by zero; divided by 1 all its codes are 0. Two tensors, because PyTorch divides a
        # plain number by multiplying with a reciprocal, which rounds twice.
        factor = torch.full_like(absmax, STEPS) / torch.where(absmax > 0, absmax, 1.0)
        self.codes.copy_(torch.round(wide * factor))

    def full(self, dtype: torch.dtype) -> Tensor:
        """The weight ``[out, in]`` that the codes represent; the product is taken in float32."""
        return (self.codes.float() * self.absmax * (1 / STEPS)).to(dtype)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``x @ W.T + b`` in x's dtype."""
        bias = self._parameters["bias"]
        if self.products == torch.float16:
            wide = half_product(input, None, self)
            return wide if bias is None else wide + bias.float()
        return F.linear(input, self.full(input.dtype), None if bias is None else bias.to(input.dtype))


def to_eight_bits(linear: nn.Linear, rounded_to: torch.dtype) -> None:
    """Turn a linear layer without memory into one that stores eight bits; its contents are undefined until `store`."""
    size, layer = linear.weight.shape, cast(EightBitLinear, linear)
    layer.rounded_to = rounded_to
    del linear.weight
    linear.__class__ = EightBitLinear
    linear.register_buffer("codes", torch.empty(size, dtype=torch.int8, device="meta"))
    linear.register_buffer("absmax", torch.empty((size[0], 1), dtype=torch.float32, device="meta"))
