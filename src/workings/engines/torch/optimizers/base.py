"""Base class of the optimizers: moments of a tensor, and the direction in which it moves, block by block of its rows.

    new weights = weights - learning_rate * (direction + weight_decay * weights)

Only one block of rows is in float32 at a time. Formulas and names of moments are those of `engines/jax/optimizers.py`,
so either engine resumes a checkpoint of the other.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from workings.config.training import AdafactorConfig, AdamWFields

BLOCK = 2 ** 22
"""Elements of a block: 16 MiB in float32. Stochastic rounding draws a block at a time, so its results depend on it."""
Slots = dict[str, Tensor]
"""Name of a moment -> the moment of one tensor."""


@dataclass(frozen=True, kw_only=True)
class UpdateContext:
    """Arguments of an update that are the same for many tensors."""

    step: int
    """From 1."""
    learning_rate: float
    scale: Tensor | float = 1.0
    """Every gradient is multiplied by this (clipping)."""
    rounding: str = "nearest"
    """As in the recipe: ``nearest``, ``stochastic`` or ``master_fp32``."""
    seed: int = 0
    reduce: Callable[[Tensor], Tensor] = lambda x: x
    """Sum over the processes that hold the tensor's other rows."""
    whole_shape: torch.Size | None = None
    """Shape of the tensor over all processes; None: one process holds it whole."""
    on_card: bool = False
    kernel: bool = False
    """As in `TorchSpec.card_kernels`."""


def slots_of(moments: Mapping[str, Mapping[str, Tensor]], name: str) -> Slots:
    """The moments of one tensor out of all ``moments``: slot -> name -> tensor."""
    return {slot: tensors[name] for slot, tensors in moments.items() if name in tensors}


class Optimizer(ABC):
    """An update rule."""

    slots: tuple[str, ...]
    """Names of the moments."""
    flat = False
    """Whether `directions` takes tensors as vectors, because its blocks run across rows."""
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
    def directions(self, grad: Tensor, slots: Slots, context: UpdateContext) -> Iterator[tuple[slice, Tensor]]:
        """Update the moments in place; yields all rows in order with their float32 direction, which may be changed."""


def row_blocks(x: Tensor) -> Iterator[slice]:
    """Slices of rows with at most `BLOCK` elements each (at least one row)."""
    rows = x.shape[0]
    # A process may have no rows of a split tensor; `max` prevents a division by zero.
    elements_per_row = x.numel() // max(1, rows)
    rows_per_block = max(1, BLOCK // max(1, elements_per_row))
    for start in range(0, rows, rows_per_block):
        yield slice(start, min(rows, start + rows_per_block))


def sum_of_squares(*tensors: Tensor) -> Tensor:
    """Float32 scalar over all of one or more tensors of one format, without a float32 copy of any."""
    if tensors[0].dtype == torch.float32:
        # One call for all tensors; a product of each with itself would need a temporary of its size.
        return torch.stack(torch._foreach_norm(tensors)).square().sum()
    totals = torch.zeros(len(tensors), dtype=torch.float32, device=tensors[0].device)
    for total, x in zip(totals, tensors, strict=True):
        for rows in row_blocks(x):
            # In float32: a bfloat16 sum stops growing at 256 times the size of its terms.
            total += x[rows].float().square().sum()
    return totals.sum()


def clip_factor(norm: Tensor, limit: float) -> Tensor:
    """Factor that brings the gradients' global norm down to ``limit``; 1 if the norm is not above it."""
    return (limit / norm.clamp(min=1e-30)).clamp(max=1.0)
