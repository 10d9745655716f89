"""Update rules over single tensors, in place, a block of rows at a time, so that no float32 copy of a matrix exists.

The formulas and the names of the moments are those of `engines/jax/optimizer.py`: a checkpoint of one engine is resumed
by the other. Gradients are read in their own format and used in float32. Sums over rows can be completed over the
devices that share a tensor (`Change.reduce`): each then updates its own rows with the same numbers.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

import torch
from torch import Tensor
from torch._subclasses.fake_tensor import is_fake

from workings.config.training import (
    AdafactorConfig,
    AdamW8bitConfig,
    AdamWConfig,
    AdamWFields,
    MuonConfig,
    OptimizerConfig,
)
from workings.engines.torch.regions import region
from workings.engines.torch.rounding import MASTER, rounding_generator, stochastic_bfloat16
from workings.errors import RequestError

BLOCK = 2 ** 22
"""Elements that are in float32 at one time: 16 MiB a temporary. Part of the result where rounding is stochastic."""
FUSED_BLOCK = 2 ** 16
"""Elements of a block where PyTorch's fused AdamW runs on a CPU: small enough that a block stays in its cache.
Tensors of fewer share a block, on every device."""
REGION = "optimizer temporaries"
Slots = dict[str, Tensor]
Emit = Callable[[slice, Tensor], None]
"""Takes the new float32 values of some rows."""


def _alone(x: Tensor) -> Tensor:
    return x


@dataclass(frozen=True, kw_only=True)
class Change:
    """What one update is told beside the tensors."""

    step: int
    """From 1."""
    learning_rate: float
    scale: Tensor | float = 1.0
    """Every gradient is multiplied by this (clipping)."""
    rounding: str = "nearest"
    seed: int = 0
    reduce: Callable[[Tensor], Tensor] = _alone
    """Sum over the devices that hold the tensor's other rows."""
    whole_rows: int = 0
    """Rows of the tensor over all devices; 0: those at hand."""


class Updated(NamedTuple):
    """A tensor, and what its update reads and writes."""

    name: str
    param: Tensor
    grad: Tensor
    slots: Slots

    @classmethod
    def of(cls, name: str, param: Tensor, grad: Tensor, moments: Mapping[str, Mapping[str, Tensor]]) -> "Updated":
        """With its own of all ``moments``: slot -> name -> tensor."""
        return cls(name, param, grad, {slot: tensors[name] for slot, tensors in moments.items() if name in tensors})


class Rule(Protocol):
    """An update rule; ``slots`` names its moments, `init` makes those that a tensor has."""

    slots: tuple[str, ...]
    flat: bool
    """Whether the rows handed to `Emit` are those of the tensor as a vector."""

    def init(self, param: Tensor) -> Slots:
        """Zero moments of one tensor."""
        ...

    def update(self, param: Tensor, grad: Tensor, slots: Slots, change: Change, emit: Emit) -> None:
        """Hand the new float32 values of all rows of ``param`` to ``emit``, in order; moments change in place."""
        ...


def row_blocks(x: Tensor) -> Iterator[slice]:
    """Slices of rows with at most `BLOCK` elements each (at least one row)."""
    rows = x.shape[0]
    count = max(1, BLOCK // max(1, x.numel() // max(1, rows)))
    for start in range(0, rows, count):
        yield slice(start, min(rows, start + count))


def sum_of_squares(*tensors: Tensor) -> Tensor:
    """Float32 scalar over all of one or more tensors of one format, without a float32 copy of any."""
    if tensors[0].dtype == torch.float32:
        return torch.stack(torch._foreach_norm(tensors)).square().sum()
    return torch.stack([_wide_sum_of_squares(x) for x in tensors]).sum()


def _wide_sum_of_squares(x: Tensor) -> Tensor:
    total = torch.zeros((), dtype=torch.float32, device=x.device)
    for rows in row_blocks(x):
        total += x[rows].float().square().sum()
    return total


def clip_factor(norm: Tensor, limit: float) -> Tensor:
    """What gradients are multiplied by so that their global norm is at most ``limit``; 1 where it already is."""
    return (limit / norm.clamp(min=1e-30)).clamp(max=1.0)


def is_matrix(x: Tensor) -> bool:
    """Whether weight decay and factored moments apply."""
    return x.ndim >= 2


class AdamW:
    """AdamW with bias correction and decoupled decay (Loshchilov and Hutter, 2019, algorithm 2)."""

    slots: tuple[str, ...] = ("exp_avg", "exp_avg_sq")
    flat = False

    def __init__(self, config: AdamWFields, moment_dtype: torch.dtype) -> None:
        self.config = config
        self.moment_dtype = moment_dtype
        self.fused_block = 0
        """Elements of a block of `fused`; 0: as the parameter's device has it. A trace says what its device would."""

    def init(self, param: Tensor) -> Slots:
        """Zero moments of the tensor's shape."""
        return {slot: torch.zeros_like(param, dtype=self.moment_dtype, requires_grad=False) for slot in self.slots}

    def update(self, param: Tensor, grad: Tensor, slots: Slots, change: Change, emit: Emit,
               matrix: bool | None = None) -> None:
        """One element depends on its own past only; ``matrix``: whether decay applies, where the shape does not say."""
        c = self.config
        decay = self.decay_of(param, matrix)
        mean_correction, square_correction = 1 - c.beta1 ** change.step, 1 - c.beta2 ** change.step
        for rows in row_blocks(param):
            g = grad[rows].float() * change.scale
            first, second = slots["exp_avg"][rows], slots["exp_avg_sq"][rows]
            mean = _stored(first, first.float().mul_(c.beta1).add_(g, alpha=1 - c.beta1))
            square = _stored(second, second.float().mul_(c.beta2).addcmul_(g, g, value=1 - c.beta2))
            del g
            root = (square / square_correction).sqrt_().add_(c.epsilon)
            direction = (mean / mean_correction).div_(root)
            del mean, square, root
            emit(rows, _moved(param, rows, direction, change, decay))

    def decay_of(self, param: Tensor, matrix: bool | None = None) -> float:
        """Weight decay of a tensor; ``matrix``: whether it applies, where the shape does not say."""
        return self.config.weight_decay if (is_matrix(param) if matrix is None else matrix) else 0.0

    def fused(self, tensors: Sequence[Updated], change: Change) -> Tensor:
        """The same update by PyTorch's one kernel, where everything is float32; returns how many weights changed.

        Several tensors have the same decay and one block's elements at most.
        """
        c, param = self.config, tensors[0].param
        step = torch.tensor(float(change.step), device=param.device)
        inverse = torch.as_tensor(change.scale, dtype=torch.float32, device=param.device).reciprocal()
        size = self.fused_block or (FUSED_BLOCK if param.device.type == "cpu" else BLOCK)
        arrays = [(each.param.view(-1), each.grad.reshape(-1), *(each.slots[slot].view(-1) for slot in self.slots))
                  for each in tensors]
        counts = []
        for start in range(0, size if is_fake(param) else param.numel(), size):  # a trace's first block stands for all
            new, grad, first, second = ([x[start:start + size] for x in column] for column in zip(*arrays, strict=True))
            old = torch.cat(new)
            torch._fused_adamw_(
                new, grad, first, second, [], [step] * len(new), lr=change.learning_rate, beta1=c.beta1, beta2=c.beta2,
                weight_decay=self.decay_of(param), eps=c.epsilon, amsgrad=False, maximize=False, grad_scale=inverse)
            counts.append(old.ne_(new[0] if len(new) == 1 else torch.cat(new)).sum())  # float32, exact below 2 ** 24
        return torch.stack(counts).to(torch.int64).sum()


class Adafactor:
    """Adafactor (Shazeer and Stern, 2018) with a given learning rate, no first moment, no scaling by the parameter.

    It is transformers' `Adafactor` with ``scale_parameter=False, relative_step=False``, in three passes over the
    gradient: moments of rows and columns, size of the update, update.
    """

    slots: tuple[str, ...] = ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq")
    flat = False

    def __init__(self, config: AdafactorConfig, moment_dtype: torch.dtype) -> None:
        self.config = config
        self.moment_dtype = moment_dtype

    def init(self, param: Tensor) -> Slots:
        """A row and a column of moments for a matrix, the whole for a vector."""
        sizes = {"exp_avg_sq_row": param.shape[:1], "exp_avg_sq_col": param.shape[1:]} if is_matrix(param) \
            else {"exp_avg_sq": param.shape}
        return {slot: torch.zeros(size, dtype=self.moment_dtype, device=param.device) for slot, size in sizes.items()}

    def update(self, param: Tensor, grad: Tensor, slots: Slots, change: Change, emit: Emit) -> None:
        """The clip of the update looks at the whole tensor, so all moments are known before any row moves."""
        c = self.config
        decay = 1.0 - change.step ** -c.decay_power
        count = (change.whole_rows or param.shape[0]) * (param.numel() // max(1, param.shape[0]))
        factor = self._factored(grad, slots, decay, change) if is_matrix(param) else \
            self._full(grad, slots, decay, change)
        total = torch.zeros((), dtype=torch.float32, device=grad.device)
        for rows in row_blocks(grad):
            total += (factor(rows) * (grad[rows].float() * change.scale)).square_().sum()
        shrink = ((change.reduce(total) / count).sqrt_() / c.clip_threshold).clamp_(min=1.0)
        for rows in row_blocks(grad):
            direction = factor(rows).mul_(grad[rows].float() * change.scale).div_(shrink)
            emit(rows, _moved(param, rows, direction, change, c.weight_decay if is_matrix(param) else 0.0))

    def _factored(self, grad: Tensor, slots: Slots, decay: float, change: Change) -> Callable[[slice], Tensor]:
        whole_rows = change.whole_rows or grad.shape[0]
        row = torch.empty(grad.shape[0], dtype=torch.float32, device=grad.device)
        col = torch.zeros(grad.shape[1], dtype=torch.float32, device=grad.device)
        for rows in row_blocks(grad):
            square = (grad[rows].float() * change.scale).square_().add_(self.config.epsilon)
            row[rows] = square.mean(-1)
            col += square.sum(0)
            del square
        row = slots["exp_avg_sq_row"].float() * decay + row * (1 - decay)
        col = slots["exp_avg_sq_col"].float() * decay + change.reduce(col) / whole_rows * (1 - decay)
        slots["exp_avg_sq_row"].copy_(row)
        slots["exp_avg_sq_col"].copy_(col)
        of_rows = (row / (change.reduce(row.sum()) / whole_rows)).rsqrt_()
        of_cols = col.rsqrt_()
        return lambda rows: of_rows[rows, None] * of_cols

    def _full(self, grad: Tensor, slots: Slots, decay: float, change: Change) -> Callable[[slice], Tensor]:
        square = (grad.float() * change.scale).square_().add_(self.config.epsilon)
        full = slots["exp_avg_sq"].float() * decay + square * (1 - decay)
        slots["exp_avg_sq"].copy_(full)
        inverse = full.rsqrt_()
        return lambda rows: inverse[rows].clone()


def _stored(moment: Tensor, wide: Tensor) -> Tensor:
    """``wide``, written to the moment; a float32 moment was changed in place and is its own float32."""
    if moment.dtype != torch.float32:
        moment.copy_(wide)
    return wide


def _moved(param: Tensor, rows: slice, direction: Tensor, change: Change, weight_decay: float) -> Tensor:
    """New float32 values of some rows; may use up ``direction``."""
    wide = param[rows].float()
    if weight_decay:
        direction = direction.add_(wide, alpha=weight_decay)
    return direction.mul_(-change.learning_rate).add_(wide)


def make_rule(config: OptimizerConfig, moment_dtype: torch.dtype) -> Rule:
    """The rule that a recipe names. Raises `RequestError` where its library is not installed."""
    if isinstance(config, AdamWConfig):
        return AdamW(config, moment_dtype)
    if isinstance(config, AdamW8bitConfig):
        from workings.engines.torch.optimizer_8bit import AdamW8bit

        return AdamW8bit(config, moment_dtype)
    if isinstance(config, MuonConfig):
        raise RequestError(f"optimizer.name: {config.name} with engine torch", "adamw, adamw8bit or adafactor",
                           "optimizer.name=adamw, or engine=jax")
    return Adafactor(config, moment_dtype)


def _fusable(rule: Rule, each: Updated, change: Change) -> bool:
    """Whether `AdamW.fused` does the same: AdamW itself, float32 throughout, so without master or random rounding."""
    changed_in_place = (each.param, *each.slots.values())
    return (type(rule) is AdamW and MASTER not in each.slots and change.rounding == "nearest" and each.param.numel() > 0
            and all(x.dtype == torch.float32 for x in (each.grad, *changed_in_place))
            and all(x.is_contiguous() for x in changed_in_place))


def in_groups(rule: Rule, tensors: Iterable[Updated], change: Change) -> Iterator[list[Updated]]:
    """Groups for `update_tensors`: small tensors that one call of PyTorch's kernel updates, and any other alone."""
    waiting: dict[float, list[Updated]] = {}
    for each in tensors:
        if each.param.numel() >= FUSED_BLOCK or not _fusable(rule, each, change):
            yield [each]
            continue
        assert isinstance(rule, AdamW)
        group = waiting.setdefault(rule.decay_of(each.param), [])
        if sum(other.param.numel() for other in group) + each.param.numel() > FUSED_BLOCK:
            yield group.copy()
            group.clear()
        group.append(each)
    yield from (group for group in waiting.values() if group)


@torch.no_grad()
def update_tensors(rule: Rule, group: Sequence[Updated], change: Change) -> Tensor:
    """Update a tensor, or a group from `in_groups`, with moments and float32 masters (slot ``master``), in place.

    Returns:
        How many stored weights changed, an int64 scalar on the device.
    """
    name, param, grad, slots = group[0]
    if _fusable(rule, group[0], change):
        assert isinstance(rule, AdamW)
        with region(REGION):
            return rule.fused(group, change)
    changed = torch.zeros((), dtype=torch.int64, device=param.device)
    master = slots.get(MASTER)
    draws = rounding_generator(change.seed, change.step, name, param.device) \
        if change.rounding == "stochastic" else None

    stored, wide = (param.view(-1), None if master is None else master.view(-1)) if rule.flat else (param, master)

    def emit(rows: slice, value: Tensor) -> None:
        new = value if draws is None else stochastic_bfloat16(value, draws)
        new = new.to(param.dtype)
        changed.add_((new != stored[rows]).sum())
        stored[rows] = new
        if wide is not None:
            wide[rows] = value

    with region(REGION):
        rule.update(param if master is None else master, grad, slots, change, emit)
    return changed
