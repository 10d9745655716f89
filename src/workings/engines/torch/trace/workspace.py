"""Memory that kernels take without a tensor for it, declared by operator.

Sources are the launch code in PyTorch's ATen/native/transformers/cuda. A trace runs on operators for the CPU, so the
fused attention of the CPU takes the place of the card's: its outputs and what is kept for backward are the same
(the output and one float32 number a query and head).
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

Workspace = Callable[..., int]
"""From an operator's arguments to bytes beyond its outputs."""


def _flash_backward(grad_out: Tensor, query: Tensor, *others: Any, **options: Any) -> int:
    """Float32 sum of the query's gradient over blocks of keys, and a float32 number a query and head."""
    # The kernel pads query positions to blocks of 128.
    positions = -(-query.shape[2] // 128) * 128
    heads = query.shape[0] * query.shape[1]
    return 4 * heads * positions * (query.shape[3] + 1)


def card_workspaces() -> dict[Any, Workspace]:
    """Declared workspaces on a CUDA card by operator."""
    return {torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default: _flash_backward}


def cublas_workspace(capability: str) -> int:
    """Bytes that cuBLAS gets from PyTorch's allocator for each thread that multiplies (forward and backward: two).

    ``:4096:2:16:8`` by default, 32 MiB on Hopper and Blackwell data-center cards (ATen/cuda/CublasHandlePool.cpp).
    """
    major = int(capability.split(".")[0]) if capability else 0
    return 32 * 2 ** 20 if major in (9, 10) else 4096 * 1024 * 2 + 16 * 1024 * 8


CONTEXT_BYTES = 400 * 2 ** 20
"""Memory that the CUDA driver takes for a process before the first tensor; assumed, the upper end of 0.3 to 0.4 GiB."""
