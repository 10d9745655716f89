"""Optimizers of the PyTorch engine, and the update of a tensor by one of them, with its rounding."""

import torch
from torch import Tensor

from workings.config.training import OptimizerConfig
from workings.engines.torch.memory_regions import region
from workings.engines.torch.optimizers.adafactor import Adafactor
from workings.engines.torch.optimizers.adamw import AdamW, AdamW8bit
from workings.engines.torch.optimizers.base import Optimizer, Slots, UpdateContext
from workings.engines.torch.rounding import MASTER, stochastic_bfloat16, tensor_generator

OPTIMIZERS: dict[str, type[Optimizer]] = {"adamw": AdamW, "adafactor": Adafactor, "adamw8bit": AdamW8bit}
"""By the names that recipes have for them."""
REGION = "optimizer temporaries"


def make_optimizer(config: OptimizerConfig, moment_dtype: torch.dtype) -> Optimizer:
    """The optimizer that a recipe names. Raises `RequestError` if its library is not installed."""
    return OPTIMIZERS[config.name](config, moment_dtype)


@torch.no_grad()
def update_tensor(optimizer: Optimizer, name: str, param: Tensor, grad: Tensor, slots: Slots,
                  context: UpdateContext) -> Tensor:
    """Update a tensor in place; how many stored weights changed, int64 on the device."""
    # The fused kernels are for AdamW in float32 throughout, on contiguous memory.
    in_place = (param, *slots.values())
    if (type(optimizer) is AdamW and MASTER not in slots and context.rounding == "nearest" and param.numel() > 0
            and all(x.dtype == torch.float32 for x in (grad, *in_place)) and all(x.is_contiguous() for x in in_place)):
        with region(REGION):
            return optimizer.fused(param, grad, slots, context)
    changed = torch.zeros((), dtype=torch.int64, device=param.device)
    master = slots.get(MASTER)
    # One generator a tensor and step, so the order in which tensors come does not change the bits.
    draws = tensor_generator(context.seed, f"rounding of {name} at {context.step}", param.device) \
        if context.rounding == "stochastic" else None
    stored, wide = (param, master) if not optimizer.flat else \
        (param.view(-1), None if master is None else master.view(-1))

    def write(rows: slice, value: Tensor) -> None:
        new = value if draws is None else stochastic_bfloat16(value, draws)
        new = new.to(param.dtype)
        # Compared in the format of storage: an update too small for it is no change.
        changed.add_((new != stored[rows]).sum())
        stored[rows] = new
        if wide is not None:
            wide[rows] = value

    with region(REGION):
        # With a master the rule reads float32 weights; the stored ones are their rounding.
        optimizer.update(param if master is None else master, grad, slots, context, write)
    return changed
