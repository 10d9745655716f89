"""Optimizers of the PyTorch engine, and updates of tensors by them: in groups where one kernel serves many, rounded."""

from collections.abc import Iterable, Iterator, Sequence

import torch
from torch import Tensor

from workings.config.training import OptimizerConfig
from workings.engines.torch.memory_regions import region
from workings.engines.torch.optimizers.adafactor import Adafactor
from workings.engines.torch.optimizers.adamw import FUSED_BLOCK, AdamW, AdamW8bit
from workings.engines.torch.optimizers.base import Optimizer, TensorUpdate, UpdateContext
from workings.engines.torch.rounding import MASTER, stochastic_bfloat16, tensor_generator

OPTIMIZERS: dict[str, type[Optimizer]] = {"adamw": AdamW, "adafactor": Adafactor, "adamw8bit": AdamW8bit}
"""By the names that recipes have for them."""
REGION = "optimizer temporaries"


def make_optimizer(config: OptimizerConfig, moment_dtype: torch.dtype) -> Optimizer:
    """The optimizer that a recipe names. Raises `RequestError` if its library is not installed."""
    return OPTIMIZERS[config.name](config, moment_dtype)


def _fusable(optimizer: Optimizer, each: TensorUpdate, context: UpdateContext) -> bool:
    """Whether `AdamW.fused` does the same: AdamW itself, float32 throughout, so without master or random rounding."""
    # The kernel sees them as vectors by `view`, which takes contiguous tensors only.
    changed_in_place = (each.param, *each.slots.values())
    return (type(optimizer) is AdamW and MASTER not in each.slots and context.rounding == "nearest"
            and each.param.numel() > 0 and all(x.dtype == torch.float32 for x in (each.grad, *changed_in_place))
            and all(x.is_contiguous() for x in changed_in_place))


def in_groups(optimizer: Optimizer, tensors: Iterable[TensorUpdate],
              context: UpdateContext) -> Iterator[list[TensorUpdate]]:
    """Groups for `update_tensors`: small tensors that one call of PyTorch's kernel updates, and any other alone."""
    waiting: dict[float, list[TensorUpdate]] = {}
    for each in tensors:
        if each.param.numel() >= FUSED_BLOCK or not _fusable(optimizer, each, context):
            yield [each]
            continue
        assert isinstance(optimizer, AdamW)
        # One call has one weight decay, so matrices and vectors wait apart.
        group = waiting.setdefault(optimizer.decay_of(each.param), [])
        if sum(other.param.numel() for other in group) + each.param.numel() > FUSED_BLOCK:
            # A copy, because the list goes on collecting while the caller works.
            yield group.copy()
            group.clear()
        group.append(each)
    yield from (group for group in waiting.values() if group)


@torch.no_grad()
def update_tensors(optimizer: Optimizer, group: Sequence[TensorUpdate], context: UpdateContext) -> Tensor:
    """Update a tensor, or a group from `in_groups`, in place; how many stored weights changed, int64 on the device."""
    name, param, grad, slots = group[0]
    if _fusable(optimizer, group[0], context):
        assert isinstance(optimizer, AdamW)
        with region(REGION):
            return optimizer.fused(group, context)
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
