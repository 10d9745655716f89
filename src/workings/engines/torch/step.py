"""One optimizer step, and the evaluation of one batch.

Order within a step: every micro batch forward and backward (gradients add up in the parameters' format), the norm of
the whole gradient, the clip factor, then tensor after tensor its update, after which its gradient is freed. With the
optimizer in backward a tensor is updated as soon as its gradient is complete.
"""

from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np
import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from workings.engines.prefix_sharing import PrefixSharing
from workings.engines.torch.attention import AttentionLayout, AttentionMask
from workings.engines.torch.backward_optimizer import BackwardOptimizer
from workings.engines.torch.cpu.distinct_positions import DistinctPositions
from workings.engines.torch.embedding import shared_gradient
from workings.engines.torch.last_layer import only_at
from workings.engines.torch.lora import trainable_parameters
from workings.engines.torch.loss import linear_cross_entropy, linear_log_probs, linear_most_likely
from workings.engines.torch.model import build_model, hidden_states, unembedding
from workings.engines.torch.objective import targets_of, token_weights
from workings.engines.torch.optimizers.apply import in_groups, update_tensors
from workings.engines.torch.optimizers.base import TensorUpdate, UpdateContext, clip_factor, sum_of_squares
from workings.engines.torch.rounding import MASTER
from workings.engines.torch.sharding import FsdpRoot, local
from workings.engines.torch.spec import TorchSpec
from workings.errors import RequestError
from workings.models.batch import Batch, BatchShape
from workings.objectives.policy_gradient import temperature_of


@dataclass(kw_only=True)
class State:
    """A model, its optimizer state and the number of updates so far. A step changes it in place."""

    root: FsdpRoot
    trained: dict[str, nn.Parameter]
    """What is updated, by its name in a checkpoint."""
    moments: dict[str, dict[str, Tensor]]
    """Slot -> name -> tensor; the float32 master is one of the slots."""
    step: int = 0
    in_backward: BackwardOptimizer | None = field(default=None, repr=False)
    """Hooks of the optimizer in backward, once they are there."""

    @property
    def model(self) -> PreTrainedModel:
        """The model itself; on several processes it computes inside of ``root`` only."""
        return self.root.model


@dataclass(frozen=True, kw_only=True)
class Rows:
    """One micro batch on the device. Lists of supervised positions come from the host, so no shape depends on data."""

    tokens: Tensor
    """``[B, S]`` int64."""
    positions: Tensor
    """``[B, S]`` int64."""
    segment_ids: Tensor
    """``[B, S]`` int64."""
    index: Tensor
    """``[N]`` int64: supervised positions of the flattened rows."""
    targets: Tensor
    """``[N]`` int64."""
    packed: bool
    """Whether a row holds several segments, so that attention needs a mask."""
    signals: Mapping[str, Tensor] = field(default_factory=dict)
    """``[N]`` float32 each: what the objective needs to know of a token beside the token."""
    attention_layout: AttentionLayout | None = None
    """How rows are arranged for attention, where that is not how they are here."""
    distinct: DistinctPositions | None = None
    """What is computed in the place of all positions, where rows share their beginnings."""

    @property
    def visible(self) -> AttentionMask:
        """What a query may see."""
        masked = self.packed and self.attention_layout is None
        return AttentionMask(segment_ids=self.segment_ids if masked else None, layout=self.attention_layout)


def to_rows(spec: TorchSpec, batch: Batch, signals: Sequence[str] = ()) -> list[Rows]:
    """This process's share of each micro batch; ``signals``: those of the batch that are wanted, by name."""
    micro_batches = []
    shared = PrefixSharing.from_batch(batch) if spec.share_prefixes else None
    for i in range(batch.tokens.shape[0]):
        own = {name: x[i, spec.mesh.rows(x.shape[1])] for name, x in batch.arrays.items()}
        # Padding has the id 0 and stands at the end, so causality alone hides it from a row's only segment.
        packed = bool(own["segment_ids"].max() > 1)
        if packed and spec.shape.has_state:
            raise RequestError("rows of several segments in a model whose layers keep a state", "one row a sequence",
                               "data.packing=none")
        # Found on the host: on a card the result's size is data, and the host would have to wait for it.
        index = np.flatnonzero(own["loss_mask"])
        # A batch has int32; PyTorch's lookups and gathers take int64.
        arrays = {name: torch.from_numpy(own[name].astype(np.int64)).to(spec.device)
                  for name in ("tokens", "positions", "segment_ids")}
        micro_batches.append(Rows(
            index=torch.from_numpy(index).to(spec.device), packed=packed,
            attention_layout=spec.find_attention_layout(own["segment_ids"]) if packed else None,
            targets=torch.from_numpy(own["targets"].reshape(-1)[index].astype(np.int64)).to(spec.device),
            signals={name: torch.from_numpy(own[name].reshape(-1)[index]).to(spec.device) for name in signals},
            distinct=None if shared is None else DistinctPositions.from_plan(shared, i, index),
            **arrays))
    return micro_batches


def blank_rows(spec: TorchSpec, shape: BatchShape) -> list[Rows]:
    """Micro batches of this shape in which every position is supervised: what needs most memory."""
    count, length = shape.rows // spec.mesh.fsdp, shape.positions

    def zeros(*size: int) -> Tensor:
        return torch.zeros(size, dtype=torch.int64, device=spec.device)

    # Every index and token is 0: a trace sees sizes, never values.
    return [Rows(tokens=zeros(count, length), positions=zeros(count, length), segment_ids=zeros(count, length),
                 index=zeros(count * length), targets=zeros(count * length), packed=False,
                 signals={name: torch.zeros(count * length, device=spec.device) for name in spec.objective.signals})
            for _ in range(shape.accumulation)]


def empty_state(spec: TorchSpec, *, trainable: bool = True) -> State:
    """A state at step 0 whose weights are still to be filled: moments of zero, masters undefined.

    One that is not ``trainable`` has neither.
    """
    root = build_model(spec)
    params = trainable_parameters(root.model) if trainable else {}
    moments: dict[str, dict[str, Tensor]] = {}
    for name, param in params.items():
        # Moments are made for this process's rows, never for a whole tensor.
        own = spec.optimizer.init(local(param))
        if spec.rounding == "master_fp32":
            own[MASTER] = torch.empty_like(local(param), dtype=torch.float32)
        for slot, x in own.items():
            moments.setdefault(slot, {})[name] = x
    return State(root=root, trained=params, moments=moments)


@torch.no_grad()
def fill_masters(state: State) -> State:
    """Float32 masters equal to the weights."""
    for name, master in state.moments.get(MASTER, {}).items():
        master.copy_(local(state.trained[name]))
    return state


def supervised(spec: TorchSpec, model: PreTrainedModel, rows: Rows) -> Tensor:
    """``[N, D]`` normed hidden states of the supervised positions of one micro batch."""
    tokens, positions, visible, index, needed = rows.tokens, rows.positions, rows.visible, rows.index, rows.index
    if rows.distinct is not None:
        tokens, positions = (rows.distinct.to_distinct(x) for x in (tokens, positions))
        visible, index, needed = AttentionMask(layout=rows.distinct), rows.distinct.supervised_N, rows.distinct.needed
    # Recomputation in backward would find the whole block again; of an unproven model it is not known what it gives.
    all_positions = spec.checkpointing or not spec.shape.proven
    with nullcontext() if all_positions else only_at(model, needed, tokens.numel()):
        hidden = hidden_states(model, tokens, positions, visible)
    # The loss sees N rows only, however many positions are prompt or padding.
    return hidden.reshape(-1, hidden.shape[-1]).index_select(0, index)


def micro_batch_loss(spec: TorchSpec, model: PreTrainedModel, rows: Rows) -> Tensor:
    """Sum of the negative log likelihoods of one micro batch, whatever the objective, a float32 scalar."""
    hidden, head = supervised(spec, model, rows), unembedding(model)
    return linear_cross_entropy(hidden, head, rows.targets, torch.ones(rows.targets.shape, device=hidden.device),
                                chunk=spec.loss_chunk, soft_cap=spec.shape.final_softcap, kernel=spec.card_kernels)


def tempered(spec: TorchSpec, hidden: Tensor) -> tuple[Tensor, float]:
    """Hidden states and a soft cap whose logits are those of the given ones, divided by the objective's temperature."""
    temperature = temperature_of(spec.objective)
    # c tanh(x / c) / T is c' tanh(x' / c') with c' = c / T and x' = x / T: a soft cap is divided as the logits are.
    return hidden if temperature == 1 else hidden / temperature, spec.shape.final_softcap / temperature


@torch.no_grad()
def micro_batch_log_probs(spec: TorchSpec, model: PreTrainedModel, rows: Rows) -> Tensor:
    """``[N]`` float32 log probabilities of the targets of one micro batch."""
    hidden, soft_cap = tempered(spec, supervised(spec, model, rows))
    return linear_log_probs(hidden, unembedding(model), rows.targets, chunk=spec.loss_chunk, soft_cap=soft_cap,
                            kernel=spec.card_kernels)


@torch.no_grad()
def micro_batch_most_likely(spec: TorchSpec, model: PreTrainedModel, rows: Rows, count: int,
                            below: int) -> tuple[Tensor, Tensor]:
    """``[N, count]`` most likely tokens of one micro batch's supervised positions, and their log probabilities."""
    return linear_most_likely(supervised(spec, model, rows), unembedding(model), count, below, chunk=spec.loss_chunk,
                              soft_cap=spec.shape.final_softcap)


def micro_batch_objective(spec: TorchSpec, model: PreTrainedModel, rows: Rows,
                          divisor: float) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
    """A scalar that has the gradient of the objective over ``divisor``, that value itself, and ``[K, 2]`` metrics.

    Last come ``[N]`` log probabilities, None for cross entropy and for several targets. No logits of other positions
    are made.
    """
    head = unembedding(model)
    hidden, soft_cap = tempered(spec, supervised(spec, model, rows))
    weights, value, metrics, log_probs = token_weights(spec.objective, hidden, head, rows, chunk=spec.loss_chunk,
                                                       soft_cap=soft_cap, kernel=spec.card_kernels)
    if rows.index.shape[0] == 0:  # a share without supervised tokens still takes part in communication
        # Sums over nothing: their zero gradients run through every layer, and with them FSDP's collective calls.
        loss = hidden.float().sum() + head[:0].float().sum()
    else:
        # Divided before, not after: the head's gradient is then rounded once.
        loss = linear_cross_entropy(hidden, head, targets_of(spec.objective, rows), weights / divisor,
                                    chunk=spec.loss_chunk, soft_cap=soft_cap, kernel=spec.card_kernels,
                                    shared=shared_gradient(model))
    return loss, loss.detach() if value is None else value / divisor, metrics, log_probs


LogProbs = list[Tensor] | None
"""``[N]`` float32 of each micro batch: log probabilities of this process's targets; None for cross entropy."""


def _backward(spec: TorchSpec, root: FsdpRoot, micro_batches: list[Rows],
              divisor: float) -> tuple[Tensor, Tensor, LogProbs]:
    """Add up the gradient of the objective; returns this process's share of its value and of its metrics.

    Micro batches are sums, so the split into micro batches does not change the result. Last come log probabilities.
    """
    total = torch.zeros((), device=spec.device)
    metrics = torch.zeros((len(spec.objective.metrics), 2), device=spec.device)
    gradients: list[Tensor] = []
    for rows in micro_batches:
        loss, value, more, log_probs = root(partial(micro_batch_objective, spec, rows=rows, divisor=divisor))
        # Frees this micro batch's activations before the next one runs forward; only gradients add up.
        loss.backward()
        total += value
        metrics += more
        if log_probs is not None:
            gradients.append(log_probs)
    return total, metrics, gradients or None


def run_step(spec: TorchSpec, state: State, micro_batches: list[Rows], divisor: float,
             learning_rate: float) -> tuple[Tensor, LogProbs]:
    """One update in place.

    Returns:
        ``[3 + 2 K]`` float32 on the device: value of the objective before the update, gradient norm before clipping,
        share of stored weights that changed, then sum and count of each metric. Beside it log probabilities before the
        update. Nothing is read back, so a trace can follow.
    """
    # Bias correction divides by 1 - beta ** step, so the first update has the number 1.
    context = UpdateContext(step=state.step + 1, learning_rate=learning_rate, rounding=spec.rounding, seed=spec.seed)
    if spec.optimizer_in_backward:
        # Hooks stay on the parameters for good, so they are registered once, at the state's first step.
        hooks = state.in_backward or BackwardOptimizer(state.trained, spec.optimizer, state.moments)
        state.in_backward = hooks
        with hooks.armed(context):
            value, metrics, log_probs = _backward(spec, state.root, micro_batches, divisor)
        norm, changed = hooks.squares.sqrt(), hooks.changed
    else:
        value, metrics, log_probs = _backward(spec, state.root, micro_batches, divisor)
        norm, changed = _update(spec, state, context)
    state.step += 1
    # A split parameter's `numel` is that of the whole tensor; `changed` is summed over processes already.
    count = sum(param.numel() for param in state.trained.values())
    # One tensor, so that the host waits for the device once a step.
    # The share is divided in float64: float32 counts exactly up to 2 ** 24 only.
    numbers = torch.stack([spec.mesh.sum(value), norm, (changed.double() / count).float()])
    if metrics.numel():
        numbers = torch.cat([numbers, spec.mesh.sum(metrics).flatten()])
    return numbers, log_probs


def _gradient(param: nn.Parameter) -> Tensor:
    """This process's part of the gradient; zeros for a parameter that no token reached."""
    return torch.zeros_like(local(param)) if param.grad is None else local(param.grad)


@torch.no_grad()
def _update(spec: TorchSpec, state: State, context: UpdateContext) -> tuple[Tensor, Tensor]:
    """Gradient norm, and how many stored weights changed."""
    # The clip factor needs every gradient, so no tensor moves before the squares of all processes are summed.
    norm = spec.mesh.sum(sum_of_squares(*(_gradient(param) for param in state.trained.values()))).sqrt()
    if spec.mesh.fsdp > 1:
        context = replace(context, reduce=spec.mesh.sum)
    if spec.clip_norm:
        context = replace(context, scale=clip_factor(norm, spec.clip_norm))
    changed = torch.zeros((), dtype=torch.int64, device=norm.device)
    # A generator: zeros for a missing gradient are made only when the tensor's turn comes.
    tensors = (TensorUpdate.of(name, local(param), _gradient(param), state.moments)
               for name, param in state.trained.items())
    for group in in_groups(spec.optimizer, tensors, context):
        names = [each.name for each in group]
        # Adafactor alone reads `global_rows`, and its tensors come one to a group: the first one's rows are right.
        own = replace(context, global_rows=state.trained[names[0]].shape[0]) if spec.mesh.fsdp > 1 else context
        changed += update_tensors(spec.optimizer, group, own)
        for name in names:
            state.trained[name].grad = None
    return norm, spec.mesh.sum(changed)
