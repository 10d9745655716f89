"""Adafactor (Shazeer and Stern, 2018, https://arxiv.org/abs/1804.04235) with a given learning rate and no first moment.

Instead of a moment per element, a matrix has one per row and one per column:

    gradient [R, C]  ->  exp_avg_sq_row [R], exp_avg_sq_col [C]

The updates are those of transformers' `Adafactor` with ``scale_parameter=False, relative_step=False``.
"""

from collections.abc import Callable, Iterator

import torch
from torch import Tensor

from workings.config.training import AdafactorConfig
from workings.engines.torch.optimizers.base import Optimizer, Slots, UpdateContext, row_blocks


class Adafactor(Optimizer):
    """Adafactor in three passes over the gradient: moments, size of the update, directions."""

    slots: tuple[str, ...] = ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq")
    splits_by_rows = True
    replicated_slots = ("exp_avg_sq_col",)
    config: AdafactorConfig

    def init(self, param: Tensor) -> Slots:
        """Zero moments: of rows and columns for a matrix, of every element for a vector or filters (three axes)."""
        if param.ndim == 2:
            sizes = {"exp_avg_sq_row": param.shape[:1], "exp_avg_sq_col": param.shape[1:]}
        else:
            sizes = {"exp_avg_sq": param.shape}
        return {slot: torch.zeros(size, dtype=self.moment_dtype, device=param.device) for slot, size in sizes.items()}

    def directions(self, grad: Tensor, slots: Slots, context: UpdateContext) -> Iterator[tuple[slice, Tensor]]:
        """Gradients over the roots of their moments, divided by their root mean square if that is above the limit."""
        update_moments = self._update_factored if grad.ndim == 2 else self._update_full
        inverse_root = update_moments(grad, slots, context)

        def unclipped(rows: slice) -> Tensor:
            return (grad[rows].float() * context.scale).mul_(inverse_root(rows))

        total = torch.zeros((), dtype=torch.float32, device=grad.device)
        for rows in row_blocks(grad):
            total += unclipped(rows).square_().sum()
        mean_square = context.reduce(total) / (context.whole_shape or grad.shape).numel()
        shrink = (mean_square.sqrt_() / self.config.clip_threshold).clamp_(min=1.0)
        for rows in row_blocks(grad):
            # Computed a second time, because keeping it would take a float32 copy of the whole matrix.
            yield rows, unclipped(rows).div_(shrink)

    def _update_factored(self, grad: Tensor, slots: Slots, context: UpdateContext) -> Callable[[slice], Tensor]:
        """Update the moments of a matrix; returns a function from rows to inverse roots of their elements' moments."""
        whole_rows = (context.whole_shape or grad.shape)[0]
        row_mean = torch.empty(grad.shape[0], dtype=torch.float32, device=grad.device)
        col_sum = torch.zeros(grad.shape[1], dtype=torch.float32, device=grad.device)
        for rows in row_blocks(grad):
            square = self._square(grad[rows], context)
            row_mean[rows] = square.mean(-1)
            col_sum += square.sum(0)
            del square  # frees the block before the next one is made
        # A process has whole rows, but only its own rows of each column.
        row = self._average(slots["exp_avg_sq_row"], row_mean, context)
        col = self._average(slots["exp_avg_sq_col"], context.reduce(col_sum) / whole_rows, context)
        # Section 3 of the paper: the moment of an element is row * column / mean of all rows.
        row_factor = (row / (context.reduce(row.sum()) / whole_rows)).rsqrt_()
        col_factor = col.rsqrt_()
        return lambda rows: row_factor[rows, None] * col_factor

    def _update_full(self, grad: Tensor, slots: Slots, context: UpdateContext) -> Callable[[slice], Tensor]:
        """`_update_factored` for a tensor with a moment for every element."""
        inverse_root = self._average(slots["exp_avg_sq"], self._square(grad, context), context).rsqrt_()
        return lambda rows: inverse_root[rows]

    def _square(self, grad: Tensor, context: UpdateContext) -> Tensor:
        return (grad.float() * context.scale).square_().add_(self.config.epsilon)

    def _average(self, moment: Tensor, new: Tensor, context: UpdateContext) -> Tensor:
        """The moving average in float32. ``moment`` keeps it in its own format."""
        # 0 at the first step, so the zeros that moments begin with have no weight.
        decay = 1.0 - context.step ** -self.config.decay_power
        average = moment.float() * decay + new * (1 - decay)
        moment.copy_(average)
        return average
