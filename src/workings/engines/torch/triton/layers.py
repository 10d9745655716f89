"""Which of a transformers model's modules compute by the kernels: those whose formula is shown to be the kernel's.

A norm, an activation or a rotation of transformers is tried on a few numbers, and one that gives something else than
the plain version of the kernel stays as it is. So a release of transformers that changes a formula loses the kernel and
not its results.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from transformers import PreTrainedModel

from workings.engines.torch.triton.operations import GELU, SILU, gate, norm, rotate

CLOSE = 1e-5
"""Largest difference of float32 results of equal formulas."""
TRIED = 8
"""Elements of a row that is tried."""
ROTATION = "apply_rotary_pos_emb"
"""The function of a transformers module that turns queries and keys."""


class NormByKernel(nn.Module):
    """A norm of transformers by `norm`."""

    weight: nn.Parameter
    offset: int
    epsilon: float

    def forward(self, x: Tensor) -> Tensor:
        """Output of x's shape and format."""
        return norm(x, self.weight, self.offset, self.epsilon)


class FeedForwardByKernel(nn.Module):
    """A gated feed-forward block of transformers by `gate`."""

    gate_proj: nn.Module
    up_proj: nn.Module
    down_proj: nn.Module
    kind: str

    def forward(self, x: Tensor) -> Tensor:
        """``[..., D]``."""
        y: Tensor = self.down_proj(gate(self.gate_proj(x), self.up_proj(x), self.kind))
        return y


@contextmanager
def _tried_out() -> Iterator[None]:
    """Real numbers on the CPU, also within a trace or while a model without memory is built.

    A formula is judged once for the whole process: where it was first asked for must not decide.
    """
    with unset_fake_temporarily(), torch.no_grad(), torch.device("cpu"):
        yield


def use_kernels(model: PreTrainedModel) -> None:
    """Let every module whose formula a kernel has compute by it. Classes are exchanged: names and weights stay."""
    for module in model.modules():
        kind: Any = type(module)
        # The name only preselects: a class is exchanged after its formula was tried on numbers.
        if kind.__name__.endswith("RMSNorm") and getattr(module, "weight", None) is not None:
            if (offset := norm_offset(kind)) is not None:
                module.__dict__ |= {"offset": offset, "epsilon": _epsilon(module)}
                module.__class__ = NormByKernel
        elif kind.__name__.endswith("MLP") and is_gated(kind):
            if activation := gate_kind(module.act_fn):
                module.__dict__ |= {"kind": activation}
                module.__class__ = FeedForwardByKernel
        elif kind.__name__.endswith("RotaryEmbedding"):
            module.register_forward_hook(_mark)
    turn_by_kernel(import_module(type(model).__module__))


def _mark(module: nn.Module, inputs: Any, angles: tuple[Tensor, Tensor]) -> None:
    """Forward hook: cosines say whose they are, for a function that all models of their kind in this process share."""
    del module, inputs
    angles[0].by_kernel = True  # type: ignore[attr-defined]


def _epsilon(module: Any) -> float:
    return float(module.eps if hasattr(module, "eps") else module.variance_epsilon)


@cache
def norm_offset(kind: type[nn.Module]) -> int | None:
    """Number that a norm's class adds to its weight, 0 or 1; None if it computes something else than `norm`."""
    with _tried_out():
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


def gate_kind(activation: Callable[[Tensor], Tensor]) -> str:
    """The name by which `gate` has an activation; empty where it has not."""
    with _tried_out():
        x = torch.linspace(-4, 4, 33)
        expected, ones = activation(x), torch.ones_like(x)
        return next((kind for kind in (GELU, SILU)
                     if torch.allclose(gate(x, ones, kind), expected, atol=CLOSE)), "")


class _Noted(nn.Module):
    """Multiplies by a number, so that a formula of three projections can be told by its results."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor) -> Tensor:
        return x * self.factor


@cache
def is_gated(kind: type[nn.Module]) -> bool:
    """Whether a class computes ``down(activation(gate(x)) * up(x))``, seen on projections that are numbers."""
    block = kind.__new__(kind)
    nn.Module.__init__(block)
    block.gate_proj, block.up_proj, block.down_proj = _Noted(2.0), _Noted(3.0), _Noted(5.0)
    block.act_fn = torch.sin  # type: ignore[assignment]
    with _tried_out():
        x = torch.linspace(-1, 1, 5)
        try:
            return torch.allclose(block(x), 5 * torch.sin(2 * x) * 3 * x)
        except Exception:  # noqa: BLE001 - an unknown class may ask for anything of its settings
            return False


def turn_by_kernel(module: Any) -> None:
    """Let a module of transformers turn queries and keys by `rotate` where `_mark` marked the angles; else as ever.

    Attention finds the function under its name in the module, so that name is where it is exchanged, for good.
    """
    original = getattr(module, ROTATION, None)
    if original is None or hasattr(original, "by_kernel") or not is_rotation(original):
        return

    def turn(q: Tensor, k: Tensor, cos: Tensor, sin: Tensor, unsqueeze_dim: int = 1) -> tuple[Tensor, Tensor]:
        if not hasattr(cos, "by_kernel") or unsqueeze_dim != 1 or cos.shape[-1] != q.shape[-1]:
            both: tuple[Tensor, Tensor] = original(q, k, cos, sin, unsqueeze_dim)
            return both
        return rotate(q, cos, sin), rotate(k, cos, sin)

    turn.by_kernel = True  # type: ignore[attr-defined]
    setattr(module, ROTATION, turn)


def is_rotation(function: Callable[..., Any]) -> bool:
    """Whether a function of transformers turns queries and keys as `rotate` does."""
    with _tried_out():
        random = torch.Generator().manual_seed(0)
        q, k = (torch.randn(2, heads, 3, TRIED, generator=random) for heads in (2, 1))
        cos, sin = (torch.randn(2, 3, TRIED, generator=random) for _ in range(2))
        try:
            found = function(q, k, cos, sin)
        except TypeError:  # another signature
            return False
        return all(torch.allclose(mine, theirs, atol=CLOSE) for mine, theirs in zip(
            found, (rotate(x, cos, sin) for x in (q, k)), strict=True))
