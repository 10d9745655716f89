"""AdamW with moments in 8 bits by blocks of 256 elements (Dettmers et al., 2022), stored in bitsandbytes' format.

The moments of a block of elements are read into float32, moved as AdamW moves them, and stored again; bitsandbytes'
own kernels do the reading and storing. So rounding of the weights, bounded temporaries and counts are those of the
other optimizers, and the numbers are those of ``bitsandbytes.optim.AdamW8bit``.
"""

from functools import cache, partial
from typing import Any

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import unset_fake_temporarily

from workings.config.training import BLOCK_OF_8BIT, MIN_ELEMENTS_8BIT, AdamW8bitConfig
from workings.engines.torch.optimizers.adamw import AdamW
from workings.engines.torch.optimizers.base import (
    Optimizer,
    Slots,
    UpdateContext,
    WriteRows,
    is_matrix,
    row_blocks,
)
from workings.errors import RequestError
from workings.hints import pip_install

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


def _append(new: list[Tensor], _: object, value: Tensor) -> None:
    new.append(value)


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
            # Zero is byte 127 of the signed values and byte 0 of the others.
            made[slot] = torch.full(param.shape, _zero(slot == "exp_avg"), dtype=torch.uint8, device=param.device)
            made[scale] = torch.zeros(-(-param.numel() // BLOCK_OF_8BIT), dtype=torch.float32, device=param.device)
        return made

    def update(self, param: Tensor, grad: Tensor, slots: Slots, context: UpdateContext, write: WriteRows) -> None:
        """`AdamW.update` for vectors."""
        flat = {slot: slots[slot].view(-1) for slot in SCALES}
        vector, gradient = param.view(-1), grad.reshape(-1)
        if param.numel() < MIN_ELEMENTS_8BIT:
            self.small.update(vector, gradient, flat, context, write, matrix=is_matrix(param))
            return
        # `row_blocks` cuts a vector at multiples of 2 ** 22, so no block of 256 is cut in two.
        for rows in row_blocks(vector):
            moments = {slot: self._read(flat[slot], slots[SCALES[slot]], slot, rows) for slot in SCALES}
            # Rounding is left to `write`: the rule inside gives float32 values.
            block = UpdateContext(step=context.step, learning_rate=context.learning_rate, scale=context.scale)
            new: list[Tensor] = []
            self.small.update(vector[rows], gradient[rows], moments, block, partial(_append, new),
                              matrix=is_matrix(param))
            for slot in SCALES:
                self._write(moments[slot], flat[slot], slots[SCALES[slot]], slot, rows)
            # The rule inside had one block of elements at most, so it gave its values in one piece.
            write(rows, new[0])

    @staticmethod
    def _read(stored: Tensor, scales: Tensor, slot: str, rows: slice) -> Tensor:
        blocks = slice(rows.start // BLOCK_OF_8BIT, -(-rows.stop // BLOCK_OF_8BIT))
        codes = _codes(slot == "exp_avg", stored.device)
        return torch.ops.bitsandbytes.dequantize_blockwise(
            stored[rows], scales[blocks], codes, BLOCK_OF_8BIT, torch.float32)

    @staticmethod
    def _write(wide: Tensor, stored: Tensor, scales: Tensor, slot: str, rows: slice) -> None:
        blocks = slice(rows.start // BLOCK_OF_8BIT, -(-rows.stop // BLOCK_OF_8BIT))
        codes = _codes(slot == "exp_avg", stored.device)
        stored[rows], scales[blocks] = torch.ops.bitsandbytes.quantize_blockwise(wide, codes, BLOCK_OF_8BIT)
