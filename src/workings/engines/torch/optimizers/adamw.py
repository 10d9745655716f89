"""AdamW (Loshchilov and Hutter, 2019, https://arxiv.org/abs/1711.05101, algorithm 2), also with moments in 8 bits."""

from collections.abc import Iterator
from functools import cache
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import is_fake, unset_fake_temporarily

from workings.config.training import BLOCK_OF_8BIT, MIN_ELEMENTS_8BIT, AdamW8bitConfig, AdamWFields
from workings.engines.torch.optimizers.base import Optimizer, Slots, UpdateContext, row_blocks
from workings.engines.torch.rounding import MASTER
from workings.engines.torch.triton.operations import adamw
from workings.errors import RequestError
from workings.hints import pip_install

CPU_BLOCK = 2 ** 16
"""Elements that PyTorch's fused AdamW updates at a time on a CPU: few enough to stay in its cache."""
CARD_BLOCK = 2 ** 24
"""The same on a GPU, which keeps 64 MiB of old values. A quarter of it made a GPU wait between kernels."""


class AdamW(Optimizer):
    """AdamW with bias correction and decoupled weight decay."""

    slots: tuple[str, ...] = ("exp_avg", "exp_avg_sq")
    splits_by_rows = True
    config: AdamWFields

    def init(self, param: Tensor) -> Slots:
        """Zero moments of the tensor's shape."""
        return {slot: torch.zeros_like(param, dtype=self.moment_dtype, requires_grad=False) for slot in self.slots}

    def directions(self, grad: Tensor, slots: Slots, context: UpdateContext) -> Iterator[tuple[slice, Tensor]]:
        """Corrected mean over the root of the corrected mean square, plus epsilon."""
        config = self.config
        mean_correction = 1 - config.beta1 ** context.step
        square_correction = 1 - config.beta2 ** context.step
        for rows in row_blocks(grad):
            g = grad[rows].float() * context.scale
            first, second = slots["exp_avg"][rows], slots["exp_avg_sq"][rows]
            mean = _store(first, first.float().mul_(config.beta1).add_(g, alpha=1 - config.beta1))
            square = _store(second, second.float().mul_(config.beta2).addcmul_(g, g, value=1 - config.beta2))
            del g
            root = (square / square_correction).sqrt_().add_(config.epsilon)
            direction = (mean / mean_correction).div_(root)
            # A local name would keep its float32 block alive until the next one is made.
            del mean, square, root
            yield rows, direction

    def can_fuse(self, param: Tensor, grad: Tensor, slots: Slots, context: UpdateContext) -> bool:
        """Whether `fused` can update this tensor: all is float32 and contiguous."""
        written = (param, *slots.values())
        return (context.rounding == "nearest" and MASTER not in slots and param.numel() > 0
                and all(x.dtype == torch.float32 for x in (grad, *written))
                and all(x.is_contiguous() for x in written))

    def fused(self, param: Tensor, grad: Tensor, slots: Slots, context: UpdateContext, weight_decay: float) -> Tensor:
        """Update a tensor by one kernel, PyTorch's or ours; returns how many weights changed, an int64 scalar."""
        config = self.config
        # These vectors share the tensors' memory. Only a gradient that is not contiguous is copied.
        weights, gradient = param.view(-1), grad.reshape(-1)
        mean, square = slots["exp_avg"].view(-1), slots["exp_avg_sq"].view(-1)
        if context.kernel:
            return adamw(weights, gradient, mean, square, scale=context.scale, step=context.step,
                         rate=context.learning_rate, beta1=config.beta1, beta2=config.beta2, epsilon=config.epsilon,
                         decay=weight_decay)
        # PyTorch's kernel divides gradients by `grad_scale`, hence the reciprocal.
        step = torch.full((), float(context.step), device=param.device)
        inverse_scale = torch.as_tensor(context.scale, dtype=torch.float32, device=param.device).reciprocal()
        size = CARD_BLOCK if context.on_card else CPU_BLOCK
        # A trace needs the first block only: all blocks take the same memory.
        end = size if is_fake(param) else param.numel()
        counts = []
        for start in range(0, end, size):
            block = slice(start, start + size)
            old = weights[block].clone()
            torch._fused_adamw_(
                [weights[block]], [gradient[block]], [mean[block]], [square[block]], [], [step],
                lr=context.learning_rate, beta1=config.beta1, beta2=config.beta2, weight_decay=weight_decay,
                eps=config.epsilon, amsgrad=False, maximize=False, grad_scale=inverse_scale)
            counts.append(old.ne_(weights[block]).sum())  # float32, which counts exactly up to 2 ** 24
        return torch.stack(counts).to(torch.int64).sum()


def _store(moment: Tensor, wide: Tensor) -> Tensor:
    """Write ``wide`` to the moment, and return it. A float32 moment is ``wide`` already, changed in place."""
    if moment.dtype != torch.float32:
        moment.copy_(wide)
    return wide


SCALES = {"exp_avg": "exp_avg_absmax", "exp_avg_sq": "exp_avg_sq_absmax"}
"""Moment in bytes -> float32 scales of its blocks. Only the first moment is signed."""


@cache
def _bitsandbytes() -> Any:
    try:
        import bitsandbytes.functional as functional
    except ModuleNotFoundError as error:
        raise RequestError("optimizer.name: adamw8bit needs bitsandbytes", "the package bitsandbytes",
                           f"{pip_install('torch')}, or optimizer.name=adamw") from error
    return functional


@cache
def _codes(slot: str, device: torch.device) -> Tensor:
    """The 256 values that the bytes of a moment represent; real numbers also in a trace or on the device ``meta``."""
    with unset_fake_temporarily(), torch.device("cpu"):
        codes: Tensor = _bitsandbytes().create_dynamic_map(signed=slot == "exp_avg")
        return codes.to(device)


@cache
def _zero_code(slot: str) -> int:
    """The byte that represents zero."""
    with unset_fake_temporarily(), torch.device("cpu"):
        return int((_codes(slot, torch.device("cpu")) == 0).nonzero()[0])


class AdamW8bit(Optimizer):
    """AdamW whose moments are bytes, with a float32 scale for each block, by bitsandbytes (Dettmers et al., 2022).

    Tensors of less than `MIN_ELEMENTS_8BIT` elements have moments as in `AdamW`.
    """

    slots = (*SCALES, *SCALES.values())
    flat = True
    config: AdamW8bitConfig

    def __init__(self, config: AdamW8bitConfig, moment_dtype: torch.dtype) -> None:
        super().__init__(config, moment_dtype)
        self.unquantized = AdamW(config, moment_dtype)
        _bitsandbytes()  # raises now, not at the first step

    def init(self, param: Tensor) -> Slots:
        """Zero moments."""
        if param.numel() < MIN_ELEMENTS_8BIT:
            return self.unquantized.init(param)
        made: Slots = {}
        blocks = -(-param.numel() // BLOCK_OF_8BIT)
        for slot, scale in SCALES.items():
            made[slot] = torch.full(param.shape, _zero_code(slot), dtype=torch.uint8, device=param.device)
            made[scale] = torch.zeros(blocks, dtype=torch.float32, device=param.device)
        return made

    def directions(self, grad: Tensor, slots: Slots, context: UpdateContext) -> Iterator[tuple[slice, Tensor]]:
        """Directions of `AdamW`, from dequantized moments that are quantized again after each block."""
        if grad.numel() < MIN_ELEMENTS_8BIT:
            yield from self.unquantized.directions(grad, slots, context)
            return
        quantizer = torch.ops.bitsandbytes
        # Blocks of rows begin at multiples of 2 ** 22 elements, so no block of 256 is cut in two.
        for rows in row_blocks(grad):
            blocks = slice(rows.start // BLOCK_OF_8BIT, -(-rows.stop // BLOCK_OF_8BIT))
            moments = {slot: quantizer.dequantize_blockwise(slots[slot][rows], slots[scale][blocks],
                                                            _codes(slot, grad.device), BLOCK_OF_8BIT, torch.float32)
                       for slot, scale in SCALES.items()}
            for _, direction in self.unquantized.directions(grad[rows], moments, context):
                yield rows, direction
            for slot, scale in SCALES.items():
                slots[slot][rows], slots[scale][blocks] = quantizer.quantize_blockwise(
                    moments[slot], _codes(slot, grad.device), BLOCK_OF_8BIT)
