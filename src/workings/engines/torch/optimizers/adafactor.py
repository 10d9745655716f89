"""Adafactor."""

from collections.abc import Callable

import torch
from torch import Tensor

from workings.config.training import AdafactorConfig
from workings.engines.torch.optimizers.base import (
    Optimizer,
    Slots,
    UpdateContext,
    WriteRows,
    new_values,
    row_blocks,
)


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, 2018) with a given learning rate, no first moment, no scaling by the parameter.

    It is transformers' `Adafactor` with ``scale_parameter=False, relative_step=False``, in three passes over the
    gradient: moments of rows and columns, size of the update, update.
    """

    slots: tuple[str, ...] = ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq")
    splits_by_rows = True
    replicated_slots = ("exp_avg_sq_col",)
    config: AdafactorConfig

    def init(self, param: Tensor) -> Slots:
        """A row and a column of moments for a matrix, the whole for a vector or for filters (three axes)."""
        sizes = {"exp_avg_sq_row": param.shape[:1], "exp_avg_sq_col": param.shape[1:]} if param.ndim == 2 \
            else {"exp_avg_sq": param.shape}
        return {slot: torch.zeros(size, dtype=self.moment_dtype, device=param.device) for slot, size in sizes.items()}

    def update(self, param: Tensor, grad: Tensor, slots: Slots, context: UpdateContext, write: WriteRows) -> None:
        """The clip of the update looks at the whole tensor, so all moments are known before any row moves."""
        c = self.config
        # 0 at the first step, so the zeros that moments begin with never count.
        decay = 1.0 - context.step ** -c.decay_power
        # Elements of the whole tensor, whichever rows are here.
        count = (context.global_rows or param.shape[0]) * (param.numel() // max(1, param.shape[0]))
        factor = self._factored(grad, slots, decay, context) if param.ndim == 2 else \
            self._full(grad, slots, decay, context)
        total = torch.zeros((), dtype=torch.float32, device=grad.device)
        for rows in row_blocks(grad):
            total += (factor(rows) * (grad[rows].float() * context.scale)).square_().sum()
        # Every process comes to this sum, one without rows of the tensor as well.
        shrink = ((context.reduce(total) / count).sqrt_() / c.clip_threshold).clamp_(min=1.0)
        for rows in row_blocks(grad):
            # Computed again: keeping it from the pass before would take a float32 copy of the matrix.
            direction = factor(rows).mul_(grad[rows].float() * context.scale).div_(shrink)
            write(rows, new_values(param, rows, direction, context, self.decay_of(param)))

    def _factored(self, grad: Tensor, slots: Slots, decay: float, context: UpdateContext) -> Callable[[slice], Tensor]:
        global_rows = context.global_rows or grad.shape[0]
        row = torch.empty(grad.shape[0], dtype=torch.float32, device=grad.device)
        col = torch.zeros(grad.shape[1], dtype=torch.float32, device=grad.device)
        for rows in row_blocks(grad):
            square = (grad[rows].float() * context.scale).square_().add_(self.config.epsilon)
            row[rows] = square.mean(-1)
            col += square.sum(0)
            del square
        # A row is in one process, so its mean is complete; a column needs the other processes' rows.
        row = slots["exp_avg_sq_row"].float() * decay + row * (1 - decay)
        col = slots["exp_avg_sq_col"].float() * decay + context.reduce(col) / global_rows * (1 - decay)
        # Stored moments are rounded; this update continues with the float32 ones.
        slots["exp_avg_sq_row"].copy_(row)
        slots["exp_avg_sq_col"].copy_(col)
        # Rows times columns over the mean of the rows (section 3 of the paper): two vectors approximate a matrix of
        # squares.
        of_rows = (row / (context.reduce(row.sum()) / global_rows)).rsqrt_()
        of_cols = col.rsqrt_()
        return lambda rows: of_rows[rows, None] * of_cols

    def _full(self, grad: Tensor, slots: Slots, decay: float, context: UpdateContext) -> Callable[[slice], Tensor]:
        square = (grad.float() * context.scale).square_().add_(self.config.epsilon)
        full = slots["exp_avg_sq"].float() * decay + square * (1 - decay)
        slots["exp_avg_sq"].copy_(full)
        inverse = full.rsqrt_()
        return lambda rows: inverse[rows].clone()
