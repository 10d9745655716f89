"""Whether a GPU uses the kernels. Before the first use each kernel is compared with its plain version on the CPU."""

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
"""Major compute capability of the first GPUs that multiply bf16."""
CLOSE = 2 ** -6
"""Largest difference that bf16 rounding explains, as a share of the largest number."""


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
            expected, found = compute(torch.device("cpu")), compute(device)
        except Exception as error:  # noqa: BLE001 - Triton, its C compiler and the driver raise anything
            return f"{name}: {first_line(error)}"
        off = max(float((a - b.cpu()).abs().max() / a.abs().max()) for a, b in zip(expected, found, strict=True))
        if not off < CLOSE:  # also true for NaN
            return f"{name}: the kernel's results are off by {off:g}"
    return ""


def _random(device: torch.device, *sizes: tuple[int, ...], dtype: torch.dtype = torch.bfloat16) -> list[Tensor]:
    """Random tensors that are the same on every device."""
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(*size, generator=generator).to(dtype).to(device) for size in sizes]


def _loss(device: torch.device) -> Sequence[Tensor]:
    logits, right = _random(device, (8, 600), (8, 16))
    targets, weights = torch.arange(8, device=device)[:, None], torch.linspace(0.1, 1, 8, device=device)[:, None]
    total = torch.zeros(600, 16, device=device)
    log_z = block_loss_(logits, targets, weights, 5.0, True)
    add_product_(total, logits, right)
    return log_z, logits.float(), total, wide_product(logits, right)


def _norm(device: torch.device) -> Sequence[Tensor]:
    # As in a model's norms of heads, the axes are not in the order of memory.
    x, d = (each.transpose(1, 2) for each in _random(device, (2, 5, 3, 40), (2, 5, 3, 40)))
    (weight,) = _random(device, (40,), dtype=torch.float32)
    with torch.enable_grad():
        y = norm(x.requires_grad_(), weight.requires_grad_(), 1, 1e-6)
        return [y.detach().float(), *(each.float() for each in torch.autograd.grad(y, (x, weight), d))]


def _update(device: torch.device) -> Sequence[Tensor]:
    param, grad, mean, square = _random(device, *[(5000,)] * 4, dtype=torch.float32)
    square.square_()
    changed = adamw(param, grad, mean, square, scale=0.5, step=3, rate=0.1, beta1=0.9, beta2=0.95, epsilon=1e-8,
                    decay=0.1)
    return param, mean, square, changed.float()


CASES: dict[str, Callable[[torch.device], Sequence[Tensor]]] = {"loss": _loss, "norm": _norm, "AdamW": _update}
"""Name -> computation of a few numbers on a device."""


class NormByKernel(nn.Module):
    """A transformers norm that computes by `norm`."""

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
            offset = int(shape.norm_plus_one and not f"{name}.weight".endswith(at_one))
            epsilon: Any = module.eps if hasattr(module, "eps") else module.variance_epsilon
            module.__dict__ |= {"offset": offset, "epsilon": float(epsilon)}
            module.__class__ = NormByKernel
