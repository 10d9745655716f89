"""Linear layers whose frozen weight is stored in NF4 (Dettmers et al., 2023, https://arxiv.org/abs/2305.14314).

bitsandbytes quantizes and dequantizes. It is imported by the first weight, because other runs do not need it.
"""

from typing import Any, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from workings.engines.torch.half import half_product

BLOCK = 64
"""Elements that share one float32 scale. Scales are not quantized again."""


class FourBitLinear(nn.Linear):
    """A linear layer with ``codes`` (two to a byte) and ``absmax`` (a scale a block) in place of its weight."""

    codes: Tensor
    absmax: Tensor
    level: Tensor
    """The sixteen values that codes represent."""
    rounded_to: torch.dtype
    """Format that a weight is rounded to before it is quantized, as in the JAX engine: so both have equal codes."""
    products = torch.float32
    """Format of the factors of products if it is float16; any other value means the input's format."""

    def store(self, weight: Tensor) -> None:
        """Quantize a weight ``[out, in]`` into this layer."""
        from bitsandbytes.functional import quantize_4bit

        rounded = weight.to(device=self.codes.device, dtype=self.rounded_to).float()
        codes, state = quantize_4bit(rounded, blocksize=BLOCK, compress_statistics=False, quant_type="nf4")
        self.codes.copy_(codes)
        self.absmax.copy_(state.absmax)
        self.level.copy_(state.code)

    def full(self, dtype: torch.dtype) -> Tensor:
        """The weight ``[out, in]`` that the codes represent."""
        from bitsandbytes.functional import QuantState, dequantize_4bit

        # One block per row: with AVX-512 bitsandbytes 0.50 takes wrong scales for rows that begin within a block.
        state = QuantState(absmax=self.absmax, shape=torch.Size((self.absmax.numel(), BLOCK)), code=self.level,
                           blocksize=BLOCK, quant_type="nf4", dtype=dtype)
        return dequantize_4bit(self.codes, state).view(self.out_features, self.in_features)

    def forward(self, input: Tensor) -> Tensor:  # noqa: A002 - the name of the class above
        """``x @ W.T + b`` in x's dtype."""
        if self.products == torch.float16:
            y = half_product(input, None, self)
        else:
            y = _FourBitProduct.apply(input, self)
        bias = self._parameters["bias"]
        return y if bias is None else y + bias.to(y.dtype)


class _FourBitProduct(torch.autograd.Function):
    """``x @ W.T`` with W dequantized in forward and again in backward."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, layer: FourBitLinear) -> Tensor:
        ctx.layer = layer
        return F.linear(x, layer.full(x.dtype))

    @staticmethod
    def backward(ctx: Any, grad: Tensor) -> tuple[Tensor, None]:
        return grad @ ctx.layer.full(grad.dtype), None


def to_four_bits(linear: nn.Linear, rounded_to: torch.dtype) -> None:
    """Turn a linear layer on the device ``meta`` into a `FourBitLinear`; its contents are undefined until `store`."""
    count = linear.out_features * linear.in_features
    del linear.weight
    linear.__class__ = FourBitLinear
    cast(FourBitLinear, linear).rounded_to = rounded_to
    # Buffers, because no optimizer sees them. bitsandbytes stores codes as a column.
    linear.register_buffer("codes", torch.empty((count // 2, 1), dtype=torch.uint8, device="meta"))
    linear.register_buffer("absmax", torch.empty(count // BLOCK, dtype=torch.float32, device="meta"))
    linear.register_buffer("level", torch.empty(16, dtype=torch.float32, device="meta"))
