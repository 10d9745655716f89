"""Which of a transformers model's norms compute by the kernel: those whose formula is shown to be the kernel's.

A norm of transformers is tried on a few numbers, and one that gives something else than the plain version of the kernel
stays as it is. So a release of transformers that changes a formula loses the kernel and not its results.
"""

from functools import cache
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from transformers import PreTrainedModel

from workings.engines.torch.triton.operations import norm

CLOSE = 1e-5
"""Largest difference of float32 results of equal formulas."""
TRIED = 8
"""Elements of a row that is tried."""


class NormByKernel(nn.Module):
    """A norm of transformers by `norm`."""

    weight: nn.Parameter
    offset: int
    epsilon: float

    def forward(self, x: Tensor) -> Tensor:
        """Output of x's shape and format."""
        return norm(x, self.weight, self.offset, self.epsilon)


def use_kernels(model: PreTrainedModel) -> None:
    """Let every norm whose formula the kernel has compute by it. Classes are exchanged: names and weights stay."""
    for module in model.modules():
        kind: Any = type(module)
        # The name only preselects: a class is exchanged after its formula was tried on numbers.
        if kind.__name__.endswith("RMSNorm") and getattr(module, "weight", None) is not None and (
                offset := norm_offset(kind)) is not None:
            module.__dict__ |= {"offset": offset, "epsilon": _epsilon(module)}
            module.__class__ = NormByKernel


def _epsilon(module: Any) -> float:
    return float(module.eps if hasattr(module, "eps") else module.variance_epsilon)


@cache
def norm_offset(kind: type[nn.Module]) -> int | None:
    """Number that a norm's class adds to its weight, 0 or 1; None if it computes something else than `norm`."""
    # Real numbers on the CPU, also within a trace or while a model without memory is built: a formula is judged once
    # for the whole process, and where it was first asked for must not decide.
    with unset_fake_temporarily(), torch.no_grad(), torch.device("cpu"):
        try:
            tried: Any = kind(TRIED)
            epsilon = _epsilon(tried)
        except (TypeError, AttributeError):
            return None
        random = torch.Generator().manual_seed(0)
        x, weight = (torch.randn(*size, generator=random) for size in ((3, TRIED), (TRIED,)))
        tried.weight.copy_(weight)
        expected = tried(x)
        return next((offset for offset in (0, 1)
                     if torch.allclose(norm(x, weight, offset, epsilon), expected, atol=CLOSE)), None)
