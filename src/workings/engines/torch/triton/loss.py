"""The loss of a block of logits in one kernel, for NVIDIA cards: the logits are read twice and written once.

PyTorch's own operations read and write them about ten times, and in float32: on an H200 that was more than half of a
step of Gemma 3 270M (`benchmarks/results/card_profile.json`). Where the kernel does not run they are used, and the run
says so. Two operators, each with a plain version for a CPU that says what it computes:

- ``workings::block_loss_`` puts the gradient by the logits in their place;
- ``workings::add_product_`` adds a product of bf16 matrices to a float32 matrix, unrounded.

Being operators, they can be traced: fake tensors see no temporaries, and the kernel has none.

Shape suffixes: C positions of a block, V vocabulary, K targets of a position, D width.
"""

import torch
from torch import Tensor

BLOCK, WARPS = 8192, 16
"""Logits that one program has in registers at a time: the fastest of 4,096 to 32,768 on an H200."""


@torch.library.custom_op("workings::block_loss_", mutates_args={"logits_CV"}, device_types="cpu")
def block_loss_(logits_CV: Tensor, targets_CK: Tensor, weights_CK: Tensor, soft_cap: float, gradient: bool) -> Tensor:
    """Log of the sum of exponentials of each row ``[C]``, float32, of logits before the cap (0: no cap).

    With ``gradient`` the logits are replaced by the derivative of ``sum(weights * -log p(target))`` by them; without,
    they stay. Arithmetic is in float32, rounded once to the format of the logits.
    """
    wide = logits_CV.float()
    capped = soft_cap * torch.tanh(wide / soft_cap) if soft_cap else wide
    log_z = torch.logsumexp(capped, -1)
    if gradient:
        d = (capped - log_z[:, None]).exp_() * weights_CK.sum(-1, keepdim=True)
        d.scatter_add_(1, targets_CK, -weights_CK)
        logits_CV.copy_(d * (1 - (capped / soft_cap).square()) if soft_cap else d)
    return log_z


@block_loss_.register_fake
def _(logits_CV: Tensor, targets_CK: Tensor, weights_CK: Tensor, soft_cap: float, gradient: bool) -> Tensor:
    return logits_CV.new_empty(logits_CV.shape[0], dtype=torch.float32)


@block_loss_.register_kernel("cuda")
def _on_card(logits_CV: Tensor, targets_CK: Tensor, weights_CK: Tensor, soft_cap: float, gradient: bool) -> Tensor:
    # Only a machine with a card has Triton.
    from workings.engines.torch.triton.kernels import block_loss

    rows, vocabulary = logits_CV.shape
    log_z = torch.empty(rows, dtype=torch.float32, device=logits_CV.device)
    # Triton's blocks are powers of two; a small vocabulary gets a smaller one, with fewer warps.
    size = min(BLOCK, 1 << (vocabulary - 1).bit_length())
    block_loss[(rows,)](logits_CV, targets_CK, weights_CK, weights_CK.sum(-1), log_z, logits_CV.stride(0), soft_cap,
                        VOCABULARY=vocabulary, TARGETS=targets_CK.shape[1], CAPPED=soft_cap > 0, GRADIENT=gradient,
                        BLOCK=size, num_warps=max(1, WARPS * size // BLOCK))
    return log_z


@torch.library.custom_op("workings::add_product_", mutates_args={"total_VD"}, device_types="cpu")
def add_product_(total_VD: Tensor, left_CV: Tensor, right_CD: Tensor) -> None:
    """Add ``left.T @ right`` of bf16 matrices to a float32 matrix; the product is never rounded to bf16."""
    total_VD.addmm_(left_CV.t().float(), right_CD.float())


@add_product_.register_fake
def _(total_VD: Tensor, left_CV: Tensor, right_CD: Tensor) -> None:
    return None


@add_product_.register_kernel("cuda")
def _(total_VD: Tensor, left_CV: Tensor, right_CD: Tensor) -> None:
    # An overload whose result has its own format: bf16 factors, and a float32 sum that is never rounded.
    torch.ops.aten.addmm.dtype_out(total_VD, left_CV.t(), right_CD, torch.float32, out=total_VD)
