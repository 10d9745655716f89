"""AdamW."""

from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import is_fake, unset_fake_temporarily

from workings.config.training import BLOCK_OF_8BIT, MIN_ELEMENTS_8BIT, AdamW8bitConfig, AdamWFields
from workings.engines.torch.optimizers.base import (
    Optimizer,
    Slots,
    UpdateContext,
    WriteRows,
    new_values,
    row_blocks,
)
from workings.engines.torch.triton.operations import adamw
from workings.errors import RequestError
from workings.hints import pip_install

FUSED_BLOCK = 2 ** 16
"""Elements of a block where PyTorch's fused AdamW runs on a CPU: small enough that a block stays in its cache."""
CARD_BLOCK = 2 ** 24
"""Block size on a GPU: 64 MiB of old values in addition to the weights. With a quarter a GPU waited between
kernels."""


class AdamW(Optimizer):
    """AdamW with bias correction and decoupled decay (Loshchilov and Hutter, 2019, algorithm 2)."""

    slots: tuple[str, ...] = ("exp_avg", "exp_avg_sq")
    splits_by_rows = True
    config: AdamWFields

    def init(self, param: Tensor) -> Slots:
        """Zero moments of the tensor's shape."""
        return {slot: torch.zeros_like(param, dtype=self.moment_dtype, requires_grad=False) for slot in self.slots}

    def update(self, param: Tensor, grad: Tensor, slots: Slots, context: UpdateContext, write: WriteRows,
               decay: float | None = None) -> None:
        """Update of independent elements; ``decay``: the weight decay, if the shape does not decide it."""
        c = self.config
        decay = self.decay_of(param) if decay is None else decay
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

    def fused(self, param: Tensor, grad: Tensor, slots: Slots, context: UpdateContext) -> Tensor:
        """The update by a fused kernel, PyTorch's or ours, if all is float32; returns the number of changed weights."""
        c = self.config
        # Vectors that share the tensors' memory; `reshape` copies a gradient that is not contiguous.
        vectors = (param.view(-1), grad.reshape(-1), *(slots[slot].view(-1) for slot in self.slots))
        if context.kernel:  # it counts changes in the same pass
            return adamw(*vectors, scale=context.scale, step=context.step, rate=context.learning_rate, beta1=c.beta1,
                         beta2=c.beta2, epsilon=c.epsilon, decay=self.decay_of(param))
        # The kernel reads a step for each tensor and divides gradients by `grad_scale`: hence the inverse.
        step = torch.full((), float(context.step), device=param.device)
        inverse = torch.as_tensor(context.scale, dtype=torch.float32, device=param.device).reciprocal()
        size = CARD_BLOCK if context.on_card else FUSED_BLOCK
        counts = []
        for start in range(0, size if is_fake(param) else param.numel(), size):  # a trace: the first block is like all
            new, g, first, second = (x[start:start + size] for x in vectors)
            old = new.clone()
            torch._fused_adamw_(
                [new], [g], [first], [second], [], [step], lr=context.learning_rate, beta1=c.beta1, beta2=c.beta2,
                weight_decay=self.decay_of(param), eps=c.epsilon, amsgrad=False, maximize=False, grad_scale=inverse)
            counts.append(old.ne_(new).sum())  # float32, exact up to 2 ** 24
        return torch.stack(counts).to(torch.int64).sum()


def _stored(moment: Tensor, wide: Tensor) -> Tensor:
    """``wide``, written to the moment; a float32 moment was changed in place and is its own float32."""
    if moment.dtype != torch.float32:
        moment.copy_(wide)
    return wide


SCALES = {"exp_avg": "exp_avg_absmax", "exp_avg_sq": "exp_avg_sq_absmax"}


@cache
def _kernels() -> Any:
    try:
        import bitsandbytes.functional as functional
    except ModuleNotFoundError as error:
        raise RequestError("optimizer.name: adamw8bit needs bitsandbytes", "the package bitsandbytes",
                           f"{pip_install('torch')}, or optimizer.name=adamw") from error
    return functional


@cache
def _codes(signed: bool, device: torch.device) -> Tensor:
    """The 256 values that a byte represents; real ones also where other new tensors have no values."""
    with unset_fake_temporarily(), torch.device("cpu"):
        codes: Tensor = _kernels().create_dynamic_map(signed=signed)
        return codes.to(device)


@cache
def _zero(signed: bool) -> int:
    """The byte that represents zero."""
    with unset_fake_temporarily(), torch.device("cpu"):
        return int((_codes(signed, torch.device("cpu")) == 0).nonzero()[0])


class AdamW8bit(Optimizer):
    """AdamW; slots ``exp_avg`` (signed) and ``exp_avg_sq`` are bytes, ``…_absmax`` the scale of each block."""

    slots = (*SCALES, *SCALES.values())
    flat = True
    """Blocks run across rows."""
    config: AdamW8bitConfig

    def __init__(self, config: AdamW8bitConfig, moment_dtype: torch.dtype) -> None:
        super().__init__(config, moment_dtype)
        self.small = AdamW(config, moment_dtype)
        _kernels()

    def init(self, param: Tensor) -> Slots:
        """Zero moments; a byte an element and a float32 scale for 256 of them."""
        if param.numel() < MIN_ELEMENTS_8BIT:
            return self.small.init(param)
        made: Slots = {}
        for slot, scale in SCALES.items():
            made[slot] = torch.full(param.shape, _zero(slot == "exp_avg"), dtype=torch.uint8, device=param.device)
            made[scale] = torch.zeros(-(-param.numel() // BLOCK_OF_8BIT), dtype=torch.float32, device=param.device)
        return made

    def update(self, param: Tensor, grad: Tensor, slots: Slots, context: UpdateContext, write: WriteRows) -> None:
        """`AdamW.update` for vectors."""
        flat = {slot: slots[slot].view(-1) for slot in SCALES}
        vector, gradient = param.view(-1), grad.reshape(-1)
        if param.numel() < MIN_ELEMENTS_8BIT:
            self.small.update(vector, gradient, flat, context, write, self.decay_of(param))
            return
        codes = {slot: _codes(slot == "exp_avg", param.device) for slot in SCALES}
        # `row_blocks` cuts a vector at multiples of 2 ** 22, so no block of 256 is cut in two.
        for rows in row_blocks(vector):
            blocks = slice(rows.start // BLOCK_OF_8BIT, -(-rows.stop // BLOCK_OF_8BIT))
            moments = {slot: torch.ops.bitsandbytes.dequantize_blockwise(
                flat[slot][rows], slots[scale][blocks], codes[slot], BLOCK_OF_8BIT, torch.float32)
                for slot, scale in SCALES.items()}

            def write_block(_: slice, value: Tensor, rows: slice = rows) -> None:
                write(rows, value)

            # The rule inside has one block of elements at most, so it writes once. Rounding is left to `write`.
            self.small.update(vector[rows], gradient[rows], moments, context, write_block, self.decay_of(param))
            for slot, scale in SCALES.items():
                flat[slot][rows], slots[scale][blocks] = torch.ops.bitsandbytes.quantize_blockwise(
                    moments[slot], codes[slot], BLOCK_OF_8BIT)
