"""Base class of the PyTorch engine's optimizers: an in-place update rule for single tensors, in blocks of rows.

So no float32 copy of a matrix exists. The formulas and the names of the moments are those of `engines/jax/optimizers`:
a checkpoint of one engine is resumed by the other. Gradients are read in their own format and used in float32. Sums
over rows can be completed over the devices that share a tensor (`UpdateContext.reduce`): each then updates its own rows
with the same numbers.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from workings.config.training import AdafactorConfig, AdamWFields

BLOCK = 2 ** 22
"""Elements that are in float32 at one time: 16 MiB a temporary. Part of the result where rounding is stochastic."""
Slots = dict[str, Tensor]
WriteRows = Callable[[slice, Tensor], None]
"""Takes the new float32 values of some rows."""


@dataclass(frozen=True, kw_only=True)
class UpdateContext:
    """Arguments of an update other than tensors."""

    step: int
    """From 1."""
    learning_rate: float
    scale: Tensor | float = 1.0
    """Every gradient is multiplied by this (clipping)."""
    rounding: str = "nearest"
    seed: int = 0
    reduce: Callable[[Tensor], Tensor] = lambda x: x
    """Sum over the devices that hold the tensor's other rows."""
    global_rows: int = 0
    """Rows of the tensor over all devices; 0: those at hand."""
    on_card: bool = False
    kernel: bool = False
    """As in `TorchSpec.card_kernels`."""


def slots_of(moments: Mapping[str, Mapping[str, Tensor]], name: str) -> Slots:
    """The moments of one tensor out of all ``moments``: slot -> name -> tensor."""
    return {slot: tensors[name] for slot, tensors in moments.items() if name in tensors}


class Optimizer(ABC):
    """An update rule: the moments a tensor begins with, and the tensor's update."""

    slots: tuple[str, ...]
    """Names of the moments."""
    flat = False
    """Whether the rows handed to `WriteRows` are those of the tensor as a vector."""
    splits_by_rows = False
    """Whether several processes can each update their own rows of a tensor."""
    replicated_slots: tuple[str, ...] = ()
    """Moments that every process then has whole; the others are split as their parameter is."""

    def __init__(self, config: AdamWFields | AdafactorConfig, moment_dtype: torch.dtype) -> None:
        self.config = config
        self.moment_dtype = moment_dtype

    @abstractmethod
    def init(self, param: Tensor) -> Slots:
        """Zero moments of one tensor."""

    @abstractmethod
    def update(self, param: Tensor, grad: Tensor, slots: Slots, context: UpdateContext, write: WriteRows) -> None:
        """Hand the new float32 values of all rows of ``param`` to ``write``, in order; moments change in place."""

    def decay_of(self, param: Tensor) -> float:
        """Weight decay: that of matrices and filters. Pulled to zero, norms and biases would change a layer's scale."""
        return self.config.weight_decay if param.ndim >= 2 else 0.0


def row_blocks(x: Tensor) -> Iterator[slice]:
    """Slices of rows with at most `BLOCK` elements each (at least one row)."""
    rows = x.shape[0]
    # Guarded, because a tensor that is split over processes may have no rows here.
    count = max(1, BLOCK // max(1, x.numel() // max(1, rows)))
    for start in range(0, rows, count):
        yield slice(start, min(rows, start + count))


def sum_of_squares(*tensors: Tensor) -> Tensor:
    """Float32 scalar over all of one or more tensors of one format, without a float32 copy of any."""
    if tensors[0].dtype == torch.float32:
        # One call for all tensors; a product of each with itself would need a temporary of its size.
        return torch.stack(torch._foreach_norm(tensors)).square().sum()
    totals = torch.zeros(len(tensors), dtype=torch.float32, device=tensors[0].device)
    for total, x in zip(totals, tensors, strict=True):
        for rows in row_blocks(x):
            # In float32: a sum of many bfloat16 squares would stop growing at 256 times their size.
            total += x[rows].float().square().sum()
    return totals.sum()


def clip_factor(norm: Tensor, limit: float) -> Tensor:
    """Factor that brings the gradients' global norm down to ``limit``; 1 if it is not above."""
    # The lower bound is for a gradient of zeros, whose factor is then 1.
    return (limit / norm.clamp(min=1e-30)).clamp(max=1.0)


def new_values(param: Tensor, rows: slice, direction: Tensor, context: UpdateContext, weight_decay: float) -> Tensor:
    """New float32 values of some rows, moved along ``direction``, which may be used up."""
    # A copy of these rows only; of float32 weights not even that, which is why only `direction` is changed.
    wide = param[rows].float()
    if weight_decay:
        direction = direction.add_(wide, alpha=weight_decay)
    # Decoupled decay: it is scaled by the learning rate and not by the moments.
    return direction.mul_(-context.learning_rate).add_(wide)
