"""One optimizer step, and the evaluation of one batch.

A step runs forward and backward for every micro batch, whose gradients add up in the parameters' format. Then it takes
the norm of the whole gradient and the clip factor, updates one tensor after the other, and frees its gradient. With the
optimizer in backward a tensor is updated as soon as its gradient is complete.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.distributed.fsdp import FSDPModule
from transformers import PreTrainedModel

from workings.engines.torch.attention import AttentionMask
from workings.engines.torch.backward_optimizer import BackwardOptimizer
from workings.engines.torch.embedding import shared_gradient
from workings.engines.torch.lora import dropping_inputs, switched_off, trainable_parameters
from workings.engines.torch.loss import linear_cross_entropy, linear_log_probs, linear_most_likely
from workings.engines.torch.model import build_model, hidden_states, unembedding
from workings.engines.torch.objective import ObjectiveResult, targets_of, token_weights
from workings.engines.torch.optimizers import update_tensor
from workings.engines.torch.optimizers.base import UpdateContext, clip_factor, slots_of, sum_of_squares
from workings.engines.torch.prefix_sharing import DistinctPositions
from workings.engines.torch.rounding import MASTER
from workings.engines.torch.sharding import FsdpRoot, local, sum_over_copies
from workings.engines.torch.spec import TorchSpec
from workings.errors import RequestError
from workings.models.batch import Batch, BatchShape
from workings.objectives.base import CrossEntropy
from workings.objectives.policy_gradient import temperature_of


@dataclass(kw_only=True)
class State:
    """A model, its optimizer state and the number of updates so far. A step changes it in place."""

    root: FsdpRoot
    trained: dict[str, nn.Parameter]
    """Updated parameters by their names in a checkpoint."""
    moments: dict[str, dict[str, Tensor]]
    """Slot -> name -> tensor. The float32 master is one of the slots."""
    step: int = 0
    in_backward: BackwardOptimizer | None = field(default=None, repr=False)
    """Hooks of the optimizer in backward, from the first step on."""
    without_adapters: bool = False

    @property
    def model(self) -> PreTrainedModel:
        """The model. Computations must go through `run`."""
        return self.root.model

    def run(self, work: Callable[[PreTrainedModel], Any]) -> Any:
        """``work(model)``. The root gathers parameters that are split among processes."""
        with switched_off(self.model) if self.without_adapters else nullcontext():
            return self.root(work)


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One micro batch on the device: int64 ``[B, S]`` of its rows, and ``[N]`` of the supervised positions."""

    tokens: Tensor
    positions: Tensor
    segment_ids: Tensor
    index: Tensor
    """``[N]`` the supervised positions, numbered in the flattened rows."""
    targets: Tensor
    packed: bool
    """Whether a row has several segments, so that attention needs a mask."""
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    """``[N]`` float32 by name: further inputs of the objective at each supervised position."""
    distinct: DistinctPositions | None = None
    """With prefix sharing, the positions that are computed."""

    @property
    def visible(self) -> AttentionMask:
        """The keys that a query may see."""
        return AttentionMask(segment_ids=self.segment_ids if self.packed else None)


def to_rows(spec: TorchSpec, batch: Batch, signals: Sequence[str] = ()) -> list[Rows]:
    """This process's rows of each micro batch; ``signals``: names of the batch's signals that are needed."""
    def integers(x: np.ndarray) -> Tensor:
        return torch.from_numpy(x.astype(np.int64)).to(spec.device)

    micro_batches = []
    for i in range(batch.tokens.shape[0]):
        own = {name: x[i, spec.mesh.rows(x.shape[1])] for name, x in batch.arrays.items()}
        # Padding is at the end with the id 0, so a row with one segment needs no mask.
        packed = bool(own["segment_ids"].max() > 1)
        if packed and spec.shape.has_state:
            raise RequestError("layers that keep a state do not take rows of several segments", "one row a sequence",
                               "data.packing=none")
        # Found on the host, which would have to wait for a GPU to learn their number.
        index = np.flatnonzero(own["loss_mask"])
        distinct = None
        if spec.share_prefixes:
            distinct = DistinctPositions.of_rows(own["tokens"], own["segment_ids"], index, spec.device)
        micro_batches.append(Rows(
            tokens=integers(own["tokens"]), positions=integers(own["positions"]),
            segment_ids=integers(own["segment_ids"]), index=integers(index),
            targets=integers(own["targets"].reshape(-1)[index]), packed=packed, distinct=distinct,
            signals={name: torch.from_numpy(own[name].reshape(-1)[index]).to(spec.device) for name in signals}))
    return micro_batches


def blank_rows(spec: TorchSpec, shape: BatchShape) -> list[Rows]:
    """Micro batches of this shape in which every position is supervised, which needs the most memory."""
    count, length = shape.rows // spec.mesh.processes, shape.positions
    request, device = spec.request, spec.device

    def zeros(*size: int) -> Tensor:
        return torch.zeros(size, dtype=torch.int64, device=device)

    return [Rows(tokens=zeros(count, length), positions=zeros(count, length), segment_ids=zeros(count, length),
                 index=zeros(count * length), targets=zeros(count * length), packed=request.packed,
                 signals={name: torch.zeros(count * length, device=device) for name in request.objective.signals})
            for _ in range(shape.accumulation)]


def empty_state(spec: TorchSpec, *, trainable: bool = True) -> State:
    """A state at step 0 with undefined weights and masters, and moments of zero; only weights if not ``trainable``."""
    root = build_model(spec)
    params = trainable_parameters(root.model) if trainable else {}
    moments: dict[str, dict[str, Tensor]] = {}
    for name, param in params.items():
        own = spec.optimizer.init(local(param))
        if spec.request.precision.rounding == "master_fp32":
            own[MASTER] = torch.empty_like(local(param), dtype=torch.float32)
        for slot, x in own.items():
            moments.setdefault(slot, {})[name] = x
    return State(root=root, trained=params, moments=moments)


@torch.no_grad()
def fill_masters(state: State) -> State:
    """The state with its float32 masters set to the weights."""
    for name, master in state.moments.get(MASTER, {}).items():
        master.copy_(local(state.trained[name]))
    return state


def supervised(spec: TorchSpec, model: PreTrainedModel, rows: Rows) -> Tensor:
    """``[N, D]`` normed hidden states of the supervised positions of one micro batch, in the format of activations."""
    if rows.distinct is None:
        hidden, index = hidden_states(model, rows.tokens, rows.positions, rows.visible), rows.index
    else:
        first_P = rows.distinct.first_P
        tokens, positions = (x.reshape(-1).index_select(0, first_P)[None] for x in (rows.tokens, rows.positions))
        hidden = hidden_states(model, tokens, positions, AttentionMask(distinct=rows.distinct))
        index = rows.distinct.supervised_N
    return hidden.reshape(-1, hidden.shape[-1]).index_select(0, index)


def micro_batch_loss(spec: TorchSpec, model: PreTrainedModel, rows: Rows) -> Tensor:
    """Sum of one micro batch's negative log likelihoods, whatever the objective is, a float32 scalar."""
    hidden, head = supervised(spec, model, rows), unembedding(model)
    return linear_cross_entropy(hidden, head, rows.targets, torch.ones(rows.targets.shape, device=hidden.device),
                                chunk=spec.request.memory.loss_chunk, soft_cap=spec.shape.final_softcap,
                                kernel=spec.card_kernels, products=spec.product_dtype)


def with_temperature(spec: TorchSpec, hidden: Tensor) -> tuple[Tensor, float]:
    """Hidden states and a soft cap that give the same logits divided by the objective's temperature T.

    Both are divided by T: ``c tanh(x / c) / T = c' tanh(x' / c')`` for ``c' = c / T`` and ``x' = x / T``.
    """
    temperature = temperature_of(spec.request.objective)
    return hidden if temperature == 1 else hidden / temperature, spec.shape.final_softcap / temperature


@torch.no_grad()
def micro_batch_log_probs(spec: TorchSpec, model: PreTrainedModel, rows: Rows) -> Tensor:
    """``[N]`` float32 log probabilities of the targets of one micro batch."""
    hidden, soft_cap = with_temperature(spec, supervised(spec, model, rows))
    return linear_log_probs(hidden.to(spec.product_dtype), unembedding(model), rows.targets,
                            chunk=spec.request.memory.loss_chunk, soft_cap=soft_cap, kernel=spec.card_kernels)


@torch.no_grad()
def micro_batch_most_likely(spec: TorchSpec, model: PreTrainedModel, rows: Rows, count: int,
                            below: int) -> tuple[Tensor, Tensor]:
    """``[N, count]`` most likely tokens of one micro batch's supervised positions, and their log probabilities."""
    hidden = supervised(spec, model, rows).to(spec.product_dtype)
    return linear_most_likely(hidden, unembedding(model), count, below, chunk=spec.request.memory.loss_chunk,
                              soft_cap=spec.shape.final_softcap)


def micro_batch_objective(spec: TorchSpec, model: PreTrainedModel, rows: Rows,
                          divisor: float) -> tuple[Tensor, ObjectiveResult]:
    """A scalar with the gradient of one micro batch's objective divided by ``divisor``, and that objective's result."""
    head, objective, chunk = unembedding(model), spec.request.objective, spec.request.memory.loss_chunk
    hidden, soft_cap = with_temperature(spec, supervised(spec, model, rows))
    weights, result = token_weights(
        objective, hidden.to(spec.product_dtype), head, rows, chunk=chunk, soft_cap=soft_cap, kernel=spec.card_kernels)
    if rows.index.shape[0] == 0:
        # Sums of empty tensors: backward must run through every layer, because FSDP communicates there.
        loss = hidden.float().sum() + head[:0].float().sum()
    else:
        # The weights are divided, not the gradient, so that the head's gradient is rounded once.
        loss = linear_cross_entropy(hidden, head, targets_of(objective, rows), weights / divisor, chunk=chunk,
                                    soft_cap=soft_cap, kernel=spec.card_kernels, shared=shared_gradient(model),
                                    products=spec.product_dtype)
    value = loss.detach() if isinstance(objective, CrossEntropy) else result.value / divisor
    return loss, result._replace(value=value)


def _backward(spec: TorchSpec, state: State, micro_batches: list[Rows], divisor: float) -> ObjectiveResult:
    """Add up the gradients of all micro batches in the parameters; returns the sum of their results."""
    total = torch.zeros((), device=spec.device)
    metrics = torch.zeros((len(spec.request.objective.metrics), 2), device=spec.device)
    log_probs: list[Tensor] = []
    for number, rows in enumerate(micro_batches, start=1):
        if isinstance(state.root, FSDPModule):  # split copies sum their gradients in the last backward pass only
            state.root.set_requires_all_reduce(number == len(micro_batches))
        with dropping_inputs(state.model, spec.request.seed, f"{state.step}, {number}, {spec.mesh.rank}"):
            loss, result = state.run(partial(micro_batch_objective, spec, rows=rows, divisor=divisor))
            loss.backward()
        total += result.value
        metrics += result.metrics
        log_probs += result.log_probs
    sum_over_copies(spec.mesh, state.trained.values())
    return ObjectiveResult(total, metrics, log_probs)


def run_step(spec: TorchSpec, state: State, micro_batches: list[Rows], divisor: float,
             learning_rate: float) -> tuple[Tensor, list[Tensor]]:
    """One update in place. The host reads nothing back, so that the step can be traced.

    Returns:
        ``[3 + 2 K]`` float32 on the device: value of the objective before the update, gradient norm before clipping,
        share of stored weights that changed, then sum and count of each metric. And the log probabilities of
        `ObjectiveResult` before the update.
    """
    context = UpdateContext(step=state.step + 1, learning_rate=learning_rate, seed=spec.request.seed,
                            rounding=spec.request.precision.rounding, on_card=spec.on_card, kernel=spec.card_kernels)
    if spec.request.memory.optimizer_in_backward:
        hooks = state.in_backward or BackwardOptimizer(state.trained, spec.optimizer, state.moments)
        state.in_backward = hooks
        with hooks.armed(context):
            result = _backward(spec, state, micro_batches, divisor)
        norm, changed = hooks.squares.sqrt(), hooks.changed
    else:
        result = _backward(spec, state, micro_batches, divisor)
        norm, changed = _update(spec, state, context)
    state.step += 1
    count = sum(param.numel() for param in state.trained.values())
    share = (changed.double() / count).float()  # float32 counts exactly up to 2 ** 24 only
    # One tensor, so that the host waits for the device once a step.
    numbers = torch.stack([spec.mesh.sum(result.value), norm, share])
    if result.metrics.numel():
        numbers = torch.cat([numbers, spec.mesh.sum(result.metrics).flatten()])
    return numbers, result.log_probs


def _gradient(param: nn.Parameter) -> Tensor:
    """This process's part of a gradient; zeros for a parameter without one."""
    return torch.zeros_like(local(param)) if param.grad is None else local(param.grad)


@torch.no_grad()
def _update(spec: TorchSpec, state: State, context: UpdateContext) -> tuple[Tensor, Tensor]:
    """Update all parameters; returns the gradient norm and the number of stored weights that changed."""
    norm = spec.mesh.sum_of_a_copy(sum_of_squares(*(_gradient(param) for param in state.trained.values()))).sqrt()
    limit = spec.request.optimizer.clip_norm
    context = replace(context, reduce=spec.mesh.sum_of_a_copy, scale=clip_factor(norm, limit) if limit else 1.0)
    changed = torch.zeros((), dtype=torch.int64, device=norm.device)
    for name, param in state.trained.items():
        changed += update_tensor(spec.optimizer, name, local(param), _gradient(param), slots_of(state.moments, name),
                                 replace(context, whole_shape=param.shape))
        param.grad = None
    return norm, spec.mesh.sum_of_a_copy(changed)
