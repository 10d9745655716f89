"""One optimizer step as a pure function, and the forward programs: evaluation and log probabilities.

The state of training is a tree of arrays:

    {"params": {…}, "moments": {"exp_avg": {flat name: array, …}, …}, "step": int32}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from workings.engines.jax.attention import Attention
from workings.engines.jax.init import tensor_key
from workings.engines.jax.layers import Remat, unroll
from workings.engines.jax.lora import Lora, dropout_keys, dropout_tensors
from workings.engines.jax.loss import loss_sum, target_log_probs, with_temperature
from workings.engines.jax.loss_positions import LOSS_POSITIONS, select, spread
from workings.engines.jax.model import final_norm, run_layers, unembedding
from workings.engines.jax.objective import ObjectiveResult, objective_sum
from workings.engines.jax.optimizers import Optimizer, clip_factor, global_norm
from workings.engines.jax.params_tree import Params, flatten_params, unflatten_params
from workings.engines.jax.projection import is_adapter
from workings.engines.jax.sharding import Layout
from workings.models.shape import ModelShape
from workings.models.weights import is_frozen
from workings.objectives.base import CROSS_ENTROPY, Objective
from workings.objectives.policy_gradient import temperature_of

Arrays = dict[str, jax.Array]
"""A batch on the device: the fields of `workings.models.batch.Batch` by name, ``[A, B, S]``."""
State = Mapping[str, Any]
"""The stored state: ``params``, ``moments`` and ``step``, layers stacked."""
MASTER = "master"
"""Slot of a float32 copy of the weights in the optimizer's state. Without it, an update of less than about 1/512 of a
bfloat16 weight is lost by rounding, and in fine-tuning most updates are smaller."""


def stochastic_bfloat16(x: jax.Array, key: jax.Array) -> jax.Array:
    """``x`` (float32) rounded to bfloat16, up or down at random, so that the mean is ``x``. Infinity and NaN stay.

    The lower 16 bits of a float32 are the fraction that bfloat16 does not have. Adding a uniform random 16-bit number
    carries into the upper half with exactly the right probability.
    """
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    noise = jax.random.bits(key, x.shape, jnp.uint16).astype(jnp.uint32)
    upper = ((bits + noise) >> 16).astype(jnp.uint16)
    rounded = jax.lax.bitcast_convert_type(upper, jnp.bfloat16)
    return jnp.where(jnp.isfinite(x), rounded, x.astype(jnp.bfloat16))


def round_keys(seed: int, step: jax.Array, names: Sequence[str]) -> dict[str, jax.Array]:
    """A random key by name for the rounding of each tensor, which depends on seed, step and name only."""
    # The step is folded into all keys by one operation, which is faster than one for each tensor.
    with jax.ensure_compile_time_eval():
        keys = jnp.stack([tensor_key(seed, f"rounding of {name}") for name in names])
    return dict(zip(names, jax.vmap(jax.random.fold_in, (0, None))(keys, step), strict=True))


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """Everything that decides the step's program."""

    shape: ModelShape
    layout: Layout
    attention: Attention
    remat: Remat
    loss_chunk: int
    parameter_dtype: Any
    compute_dtype: Any
    rounding: str
    seed: int
    optimizer: Optimizer
    objective: Objective = CROSS_ENTROPY
    lora: Lora | None = None
    """Adapters, if only adapters are trained."""
    at_loss_positions: bool = False
    """Whether the loss is computed at a batch's loss positions only, if it has them."""
    device_bytes: int = 0
    """Bytes that a run may use of its smallest device; 0: unknown, and then no gathered layers are kept."""

    def trains(self, name: str) -> bool:
        """Whether the tensor of this flat name is trained."""
        return is_adapter(name) if self.lora else not is_frozen(name, self.shape)

    def trained(self, params: Params) -> dict[str, Any]:
        """Trained tensors by flat name."""
        return {name: x for name, x in flatten_params(params).items() if self.trains(name)}

    def frozen(self, params: Params) -> dict[str, Any]:
        """Frozen tensors by flat name."""
        return {name: x for name, x in flatten_params(params).items() if not self.trains(name)}

    def saved(self, params: Params) -> dict[str, Any]:
        """Tensors of a checkpoint by flat name: adapters, or the whole model."""
        return self.trained(params) if self.lora else flatten_params(params)

    def fresh_moments(self, params: Params) -> dict[str, Any]:
        """Optimizer state at step 0: slot -> flat name -> array; `MASTER` may be one of the slots."""
        trained = self.trained(params)
        moments = self.optimizer.init(trained)
        if self.rounding == "master_fp32":
            moments[MASTER] = {name: x.astype(jnp.float32) for name, x in trained.items()}
        return moments


def _last_layer(spec: StepSpec, params: Params, rows: Arrays) -> jax.Array:
    return run_layers(params, spec.shape, rows["tokens"], rows["positions"], rows["segment_ids"],
                      attention=spec.attention, remat=spec.remat, dtype=spec.compute_dtype, layout=spec.layout,
                      unroll=unroll(spec.shape))[0]


def all_hidden_states(spec: StepSpec, params: Params, rows: Arrays) -> jax.Array:
    """``[B, S, D]`` normed hidden states of one micro batch."""
    return final_norm(_last_layer(spec, params, rows), params, spec.shape)


def supervised_hidden_states(spec: StepSpec, params: Params, rows: Arrays) -> tuple[jax.Array, Arrays]:
    """``[B, M, D]`` normed hidden states of one micro batch, and its rows: at its M loss positions, if it has some."""
    if LOSS_POSITIONS not in rows:
        return all_hidden_states(spec, params, rows), rows
    index = rows[LOSS_POSITIONS]
    hidden = final_norm(select(_last_layer(spec, params, rows), index), params, spec.shape)
    return hidden, {name: select(x, index) for name, x in rows.items() if name != LOSS_POSITIONS}


class StepSums(NamedTuple):
    """Sums over the micro batches of a step."""

    value: jax.Array
    """Value of the objective, divided by the step's divisor."""
    metrics: jax.Array
    """``[K, 2]`` sums and counts of the objective's metrics."""
    gradients: Params
    """Gradients of ``value`` for the trained tensors."""


def gradients(spec: StepSpec, params: Params, batch: Arrays, divisor: jax.Array,
              step: jax.Array | int = 0) -> tuple[StepSums, jax.Array | None]:
    """The sums of a step, and log probabilities as in `StepResult`; only dropout reads ``step``."""
    trained, frozen = unflatten_params(spec.trained(params)), spec.frozen(params)

    def surrogate_and_result(trained: Params, rows: Arrays, key: jax.Array | None) -> tuple[jax.Array, ObjectiveResult]:
        all_params = unflatten_params(flatten_params(trained) | frozen | dropout_tensors(spec.lora, spec.shape, key))
        hidden, learned = supervised_hidden_states(spec, all_params, rows)
        surrogate, result = objective_sum(
            spec.objective, hidden, unembedding(all_params), learned, spec.shape, spec.layout, spec.loss_chunk)
        if LOSS_POSITIONS in rows and result.log_probs is not None:
            every_log_prob = spread(result.log_probs, rows[LOSS_POSITIONS], rows["tokens"].shape[1])
            result = result._replace(log_probs=every_log_prob)
        return surrogate / divisor, result._replace(total=result.total / divisor)

    def micro_batch_sums(rows: Arrays, key: jax.Array | None) -> tuple[StepSums, jax.Array | None]:
        (_, result), gradient = jax.value_and_grad(surrogate_and_result, has_aux=True)(trained, rows, key)
        return StepSums(result.total, result.metrics, gradient), result.log_probs

    keys = dropout_keys(spec.lora, spec.seed, step, batch["tokens"].shape[0])
    # A single micro batch needs no accumulator of the size of all gradients.
    if batch["tokens"].shape[0] == 1:
        sums, log_probs = micro_batch_sums(*jax.tree.map(lambda x: x[0], (batch, keys)))
        return sums, None if log_probs is None else log_probs[None]

    def add(so_far: StepSums, xs: tuple[Arrays, jax.Array | None]) -> tuple[StepSums, jax.Array | None]:
        sums, log_probs = micro_batch_sums(*xs)
        return jax.tree.map(jnp.add, so_far, sums), log_probs

    # The accumulator has the dtype of the weights, so each addition may be rounded to bfloat16.
    zeros = StepSums(jnp.zeros(()), jnp.zeros((len(spec.objective.metrics), 2)), jax.tree.map(jnp.zeros_like, trained))
    return jax.lax.scan(add, zeros, (batch, keys))


def changed_share(old: dict[str, jax.Array], new: dict[str, jax.Array]) -> jax.Array:
    """Share of trained parameters whose stored value changed."""
    total = float(sum(x.size for x in old.values()))  # a count of billions does not fit in int32
    # Each row is counted in integers: a float32 count would stop at 2 ** 24.
    rows = [jnp.sum(old[name] != new[name], axis=-1, dtype=jnp.int32).astype(jnp.float32) for name in old]
    return sum((jnp.sum(count) for count in rows), jnp.zeros(())) / total


def update_tensors(spec: StepSpec, state: dict[str, Any], grads: dict[str, jax.Array],
                  learning_rate: jax.Array) -> dict[str, Any]:
    """The state after an update of every trained tensor with these gradients."""
    step = state["step"] + 1
    old, moments = spec.trained(state["params"]), state["moments"]
    new: dict[str, jax.Array] = {}
    new_moments: dict[str, dict[str, jax.Array]] = {slot: {} for slot in moments}
    keys = round_keys(spec.seed, step, [*old]) if spec.rounding == "stochastic" else {}
    for name, param in old.items():
        own = {slot: moments[slot][name] for slot in moments if name in moments[slot]}
        unrounded = own.pop(MASTER, param)
        value, updated = spec.optimizer.update(name, unrounded, grads[name], own, step, learning_rate)
        if MASTER in moments:
            updated[MASTER] = value
        new[name] = stochastic_bfloat16(value, keys[name]) if name in keys else value.astype(param.dtype)
        for slot, x in updated.items():
            new_moments[slot][name] = x
    return {"params": unflatten_params(new | spec.frozen(state["params"])), "moments": new_moments, "step": step}


def step(spec: StepSpec, state: dict[str, Any], batch: Arrays, divisor: jax.Array,
         learning_rate: jax.Array) -> tuple[dict[str, Any], jax.Array, jax.Array | None]:
    """The state after one update, numbers, and log probabilities as `gradients` gives them.

    The numbers of `StepResult.of` are one array, so that the host waits for one transfer.
    """
    sums, log_probs = gradients(spec, state["params"], batch, divisor, state["step"])
    grads = {name: g.astype(jnp.float32) for name, g in flatten_params(sums.gradients).items()}
    norm = global_norm(grads)
    if clip_norm := spec.optimizer.config.clip_norm:
        factor = clip_factor(norm, clip_norm)
        grads = {name: g * factor for name, g in grads.items()}
    new = update_tensors(spec, state, grads, learning_rate)
    changed = changed_share(spec.trained(state["params"]), spec.trained(new["params"]))
    return new, jnp.concatenate([jnp.stack([sums.value, norm, changed]), sums.metrics.reshape(-1)]), log_probs


def evaluate(spec: StepSpec, params: Params, batch: Arrays) -> jax.Array:
    """Sum of the negative log likelihoods of a batch, regardless of the objective."""
    def micro_batch_loss(rows: Arrays) -> jax.Array:
        return loss_sum(all_hidden_states(spec, params, rows), unembedding(params), rows["targets"], rows["loss_mask"],
                        spec.shape, spec.layout, spec.loss_chunk)

    return jnp.sum(jax.lax.map(micro_batch_loss, batch))


def log_probs(spec: StepSpec, params: Params, batch: Arrays) -> jax.Array:
    """``[A, B, S]`` float32 log probabilities of a batch's targets; 0 where they are not supervised."""
    def micro_batch_log_probs(rows: Arrays) -> jax.Array:
        hidden, shape = with_temperature(all_hidden_states(spec, params, rows), spec.shape,
                                         temperature_of(spec.objective))
        log_probs_BS = target_log_probs(hidden, unembedding(params), rows["targets"], shape, spec.layout,
                                        spec.loss_chunk)
        # No product: padding may have an infinite log probability, and 0 times infinity is NaN.
        return jnp.where(rows["loss_mask"] > 0, log_probs_BS, 0.0)

    return jax.lax.map(micro_batch_log_probs, batch)
