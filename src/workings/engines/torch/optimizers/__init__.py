"""Optimizers of the PyTorch engine, and the update of one tensor by an optimizer."""

import torch
from torch import Tensor

from workings.config.training import OptimizerConfig
from workings.engines.torch.memory_regions import region
from workings.engines.torch.optimizers.adafactor import Adafactor
from workings.engines.torch.optimizers.adamw import AdamW, AdamW8bit
from workings.engines.torch.optimizers.base import Optimizer, Slots, UpdateContext
from workings.engines.torch.rounding import MASTER, stochastic_bfloat16, tensor_generator

OPTIMIZERS: dict[str, type[Optimizer]] = {"adamw": AdamW, "adafactor": Adafactor, "adamw8bit": AdamW8bit}
REGION = "optimizer temporaries"


def make_optimizer(config: OptimizerConfig, moment_dtype: torch.dtype) -> Optimizer:
    """The optimizer that a recipe names. Raises `RequestError` if its library is not installed."""
    return OPTIMIZERS[config.name](config, moment_dtype)


@torch.no_grad()
def update_tensor(optimizer: Optimizer, name: str, param: Tensor, grad: Tensor, slots: Slots,
                  context: UpdateContext) -> Tensor:
    """Update a tensor and its moments in place; returns how many stored weights changed, int64 on the device."""
    # Decay would change the scale of norms and biases, so only matrices and filters have it.
    weight_decay = optimizer.config.weight_decay if param.ndim >= 2 else 0.0
    if isinstance(optimizer, AdamW) and optimizer.can_fuse(param, grad, slots, context):
        with region(REGION):
            return optimizer.fused(param, grad, slots, context, weight_decay)
    if optimizer.flat:
        param, grad = param.view(-1), grad.reshape(-1)
        slots = {slot: x.view(-1) for slot, x in slots.items()}
    master = slots.get(MASTER)
    changed = torch.zeros((), dtype=torch.int64, device=param.device)
    generator = None
    if context.rounding == "stochastic":
        # One generator per tensor and step, so the order of the tensors does not change the bits.
        generator = tensor_generator(context.seed, f"rounding of {name} at {context.step}", param.device)

    def move(rows: slice, direction: Tensor) -> None:
        # Float32 weights are not copied here, so only `direction` may be changed in place.
        wide = (param if master is None else master)[rows].float()
        if weight_decay:
            direction.add_(wide, alpha=weight_decay)
        value = direction.mul_(-context.learning_rate).add_(wide)
        rounded = value if generator is None else stochastic_bfloat16(value, generator)
        new = rounded.to(param.dtype)
        # An update that is too small for the format of storage is no change.
        changed.add_((new != param[rows]).sum())
        param[rows] = new
        if master is not None:
            master[rows] = value

    with region(REGION):
        for rows, direction in optimizer.directions(grad, slots, context):
            move(rows, direction)
    return changed
