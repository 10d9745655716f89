"""Whether a GPU uses the kernels: each is first compared with its plain version on a few numbers."""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from workings.engines.torch.triton.operations import adamw, add_product_, block_loss_, norm, wide_product
from workings.errors import first_line
from workings.models.registry import family_of
from workings.models.shape import ModelShape

FIRST_CAPABILITY = 8
"""Major compute capability from which cards multiply bf16, the format that the kernels are about."""
CLOSE = 2 ** -6
"""Results that are further apart than this, as a share of their largest, are not roundings of one value to bf16."""


def kernels_run_on(device: torch.device) -> bool:
    """Whether the kernels run on a device."""
    return device.type == "cuda" and not kernel_problem(device)


@cache
def kernel_problem(device: torch.device) -> str:
    """Reason why a GPU uses PyTorch's own operations; empty if the kernels run and give the same results."""
    if find_spec("triton") is None:
        return "Triton is not installed"
    if torch.cuda.get_device_capability(device)[0] < FIRST_CAPABILITY:
        return "it has no bf16"
    for name, compute in CASES.items():
        try:
            here, there = (compute(tested) for tested in (torch.device("cpu"), device))
        except Exception as error:  # noqa: BLE001 - Triton, its C compiler and the driver raise what they like
            return f"{name}: {first_line(error)}"
        apart = max(float((a - b.cpu()).abs().max() / a.abs().max()) for a, b in zip(here, there, strict=True))
        # Written this way NaN is refused as well.
        if not apart < CLOSE:
            return f"{name}: the kernel's results are off by {apart:g}"
    return ""


def _drawn(device: torch.device, *sizes: tuple[int, ...], dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    """Random numbers that are the same on every device."""
    random = torch.Generator().manual_seed(0)
    return [torch.randn(*size, generator=random).to(dtype).to(device) for size in sizes]


def _loss(device: torch.device) -> Sequence[Tensor]:
    logits, right = _drawn(device, (8, 600), (8, 16))
    targets, weights = torch.arange(8, device=device)[:, None], torch.linspace(0.1, 1, 8, device=device)[:, None]
    total = torch.zeros(600, 16, device=device)
    log_z = block_loss_(logits, targets, weights, 5.0, True)
    add_product_(total, logits, right)
    return log_z, logits.float(), total, wide_product(logits, right)


def _norm(device: torch.device) -> Sequence[Tensor]:
    # As of a model's norms of heads: axes are not in the order of memory.
    x, d = (each.transpose(1, 2) for each in _drawn(device, (2, 5, 3, 40), (2, 5, 3, 40)))
    (weight,) = _drawn(device, (40,), dtype=torch.float32)
    with torch.enable_grad():
        y = norm(x.requires_grad_(), weight.requires_grad_(), 1, 1e-6)
        return [y.detach().float(), *(each.float() for each in torch.autograd.grad(y, (x, weight), d))]


def _update(device: torch.device) -> Sequence[Tensor]:
    param, grad, mean, square = _drawn(device, *[(5000,)] * 4, dtype=torch.float32)
    square.square_()
    changed = adamw(param, grad, mean, square, scale=0.5, step=3, rate=0.1, beta1=0.9, beta2=0.95, epsilon=1e-8,
                    decay=0.1)
    return param, mean, square, changed.float()


CASES: dict[str, Callable[[torch.device], Sequence[Tensor]]] = {"loss": _loss, "norm": _norm, "AdamW": _update}


class NormByKernel(nn.Module):
    """A norm of transformers by `norm`."""

    weight: nn.Parameter
    offset: int
    epsilon: float

    def forward(self, x: Tensor) -> Tensor:
        """Output of x's shape and format."""
        return norm(x, self.weight, self.offset, self.epsilon)


def use_kernels(model: PreTrainedModel, shape: ModelShape) -> None:
    """Let every norm with a weight compute by the kernel. Classes are exchanged: names and weights stay."""
    at_one = family_of(shape).norms_at_one
    for name, module in model.named_modules():
        if type(module).__name__.endswith("RMSNorm") and getattr(module, "weight", None) is not None:
            added = int(shape.norm_plus_one and not f"{name}.weight".endswith(at_one))
            epsilon: Any = module.eps if hasattr(module, "eps") else module.variance_epsilon
            module.__dict__ |= {"offset": added, "epsilon": float(epsilon)}
            module.__class__ = NormByKernel
