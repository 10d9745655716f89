"""AdamW."""

from collections.abc import Sequence

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import is_fake

from workings.config.training import AdamWFields
from workings.engines.torch.optimizers.base import (
    Optimizer,
    Slots,
    TensorUpdate,
    UpdateContext,
    WriteRows,
    is_matrix,
    new_values,
    row_blocks,
)
from workings.engines.torch.triton.operations import adamw

FUSED_BLOCK = 2 ** 16
"""Elements of a block where PyTorch's fused AdamW runs on a CPU: small enough that a block stays in its cache.
Tensors of fewer share a block, on every device."""
CARD_BLOCK = 2 ** 24
"""Block size on a GPU: 64 MiB of old values in addition to the weights. With a quarter a GPU waited between
kernels."""


class AdamW(Optimizer):
    """AdamW with bias correction and decoupled decay (Loshchilov and Hutter, 2019, algorithm 2)."""

    slots: tuple[str, ...] = ("exp_avg", "exp_avg_sq")
    splits_by_rows = True
    config: AdamWFields

    def __init__(self, config: AdamWFields, moment_dtype: torch.dtype) -> None:
        super().__init__(config, moment_dtype)
        self.by_kernel = False
        """Whether `fused` is the kernel for a card, which counts changes in the same pass."""
        self.fused_block = 0
        """Elements of a block of `fused`; 0: as the parameter's device has it. A trace says what its device would."""

    def init(self, param: Tensor) -> Slots:
        """Zero moments of the tensor's shape."""
        return {slot: torch.zeros_like(param, dtype=self.moment_dtype, requires_grad=False) for slot in self.slots}

    def update(self, param: Tensor, grad: Tensor, slots: Slots, context: UpdateContext, write: WriteRows,
               matrix: bool | None = None) -> None:
        """Update of independent elements; ``matrix``: whether decay applies, if the shape does not decide it."""
        c = self.config
        decay = self.decay_of(param, matrix)
        mean_correction, square_correction = 1 - c.beta1 ** context.step, 1 - c.beta2 ** context.step
        for rows in row_blocks(param):
            g = grad[rows].float() * context.scale
            first, second = slots["exp_avg"][rows], slots["exp_avg_sq"][rows]
            mean = _stored(first, first.float().mul_(c.beta1).add_(g, alpha=1 - c.beta1))
            square = _stored(second, second.float().mul_(c.beta2).addcmul_(g, g, value=1 - c.beta2))
            del g
            # Epsilon is added after the correction and the root, as in the paper and in PyTorch's kernel.
            root = (square / square_correction).sqrt_().add_(c.epsilon)
            direction = (mean / mean_correction).div_(root)
            # A local name would keep its block of float32 alive into the next turn.
            del mean, square, root
            write(rows, new_values(param, rows, direction, context, decay))

    def decay_of(self, param: Tensor, matrix: bool | None = None) -> float:
        """Weight decay of a tensor; ``matrix``: whether it applies, where the shape does not say."""
        return self.config.weight_decay if (is_matrix(param) if matrix is None else matrix) else 0.0

    def fused(self, tensors: Sequence[TensorUpdate], context: UpdateContext) -> Tensor:
        """The update by a fused kernel, PyTorch's or ours, if all is float32; returns the number of changed weights.

        Several tensors have the same decay and one block's elements at most.
        """
        c, param = self.config, tensors[0].param
        # Vectors that share the tensors' memory; `reshape` copies a gradient that is not contiguous.
        arrays = [(each.param.view(-1), each.grad.reshape(-1), *(each.slots[slot].view(-1) for slot in self.slots))
                  for each in tensors]
        if self.by_kernel:
            return adamw(arrays, scale=context.scale, step=context.step, rate=context.learning_rate, beta1=c.beta1,
                         beta2=c.beta2, epsilon=c.epsilon, decay=self.decay_of(param))
        # The kernel reads a step for each tensor and divides gradients by `grad_scale`: hence the inverse.
        # A fill, not a copy from the host, for which the host would wait.
        step = torch.full((), float(context.step), device=param.device)
        inverse = torch.as_tensor(context.scale, dtype=torch.float32, device=param.device).reciprocal()
        size = self.fused_block or (FUSED_BLOCK if param.device.type == "cpu" else CARD_BLOCK)
        counts = []
        for start in range(0, size if is_fake(param) else param.numel(), size):  # a trace: the first block is like all
            new, grad, first, second = ([x[start:start + size] for x in column] for column in zip(*arrays, strict=True))
            # `cat` copies even a single tensor: these are the values before the update.
            old = torch.cat(new)
            torch._fused_adamw_(
                new, grad, first, second, [], [step] * len(new), lr=context.learning_rate, beta1=c.beta1,
                beta2=c.beta2, weight_decay=self.decay_of(param), eps=c.epsilon, amsgrad=False, maximize=False,
                grad_scale=inverse)
            counts.append(old.ne_(new[0] if len(new) == 1 else torch.cat(new)).sum())  # float32, exact up to 2 ** 24
        return torch.stack(counts).to(torch.int64).sum()


def _stored(moment: Tensor, wide: Tensor) -> Tensor:
    """``wide``, written to the moment; a float32 moment was changed in place and is its own float32."""
    if moment.dtype != torch.float32:
        moment.copy_(wide)
    return wide
