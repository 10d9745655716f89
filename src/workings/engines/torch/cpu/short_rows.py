"""Attention of short rows by plain products, which on a CPU are faster than PyTorch's fused kernel."""

import torch
from torch import Tensor

from workings.engines.torch.attention import add_function, fused_attention, plain_attention

NAME = "host"
"""Key of `host_attention` among `attention.FUNCTIONS`."""
SHORT = {torch.float32: 64, torch.bfloat16: 192}
"""Rows up to which plain products beat PyTorch's fused kernel on a CPU, whose backward is slow in bfloat16."""


def host_attention(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None, scale: float, softcap: float) -> Tensor:
    """`fused_attention` on a CPU, where `SHORT` rows in training are faster with plain products."""
    short = q.requires_grad and k.shape[2] <= SHORT.get(q.dtype, 0)
    return (plain_attention if short else fused_attention)(q, k, v, mask, scale, softcap)


add_function(NAME, host_attention)
