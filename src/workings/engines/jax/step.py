"""One optimizer step as a pure function, and the evaluation of one batch.

State: ``{"params": tree, "moments": slot -> flat name -> array, "step": int32}``. The step donates it: inputs and
outputs share memory, so that parameters and moments exist once.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.jax.attention import Attention
from workings.engines.jax.lora import Lora
from workings.engines.jax.loss import loss_sum, target_log_probs, tempered
from workings.engines.jax.model import hidden_states, unembedding
from workings.engines.jax.objective import objective_sum
from workings.engines.jax.optimizers.base import Optimizer, clip_factor, global_norm
from workings.engines.jax.params_tree import Params, flatten_params, unflatten_params
from workings.engines.jax.projection import is_adapter
from workings.engines.jax.remat import Remat
from workings.engines.jax.rounding import MASTER, round_keys, stored
from workings.engines.jax.sharding import Layout
from workings.engines.like_lengths import LikeLengths
from workings.models.batch import Batch
from workings.models.shape import ModelShape
from workings.models.weights import is_frozen
from workings.objectives.base import Objective
from workings.objectives.cross_entropy import CROSS_ENTROPY
from workings.objectives.policy_gradient import temperature_of

Arrays = dict[str, jax.Array]
"""A batch on the device: the fields of `workings.models.batch.Batch` by name, ``[A, B, S]``."""


State = Mapping[str, Any]
"""``params``, ``moments`` and ``step``, layers stacked."""


class ProgramVariant:
    """Where programs may differ between devices; this is what accelerators run.

    A step: the form in which it takes its state, and what of a batch it computes. Generation: how prompts are batched.
    The other variant is `workings.engines.jax.cpu.CpuVariant`. What a state is between two steps does not depend on it.
    """

    generation_batches = 1
    """Batches of prompts that are answered at a time, each with its part of the rows."""
    last_rows = 0
    """Rows of drawn completions that are computed without the others once no more are unfinished; 0: never."""
    fine_prompt_lengths = False
    """Whether prompts are padded to three quarters of a power of two, too."""

    def batch_arrays(self, batch: Batch) -> dict[str, np.ndarray]:
        """Arrays of a batch that the step takes beside rows and signals, int32 ``[A, B, ...]``."""
        del batch
        return {}

    def micro_batches(self, count: int, rows: int) -> tuple[int, int]:
        """Micro batches and their rows, where a recipe asks for ``count`` of ``rows`` each."""
        return count, rows

    def like_lengths(self, batch: Batch) -> LikeLengths | None:
        """The batch in micro batches of like length; None: as it is."""
        del batch
        return None

    def step_by_length(self, spec: "StepSpec", abstract: Any, longest: Mapping[str, Any]) -> Any:
        """The step for batches of this size and shorter ones, where it is not one program; None where it is one."""
        del spec, abstract, longest

    def supervised(self, spec: "StepSpec", params: Params, rows: Arrays) -> tuple[jax.Array, Arrays]:
        """Normed hidden states of one micro batch in training, and the rows that they belong to."""
        return all_hidden_states(spec, params, rows), rows

    def at_positions(self, log_probs: jax.Array, rows: Arrays) -> jax.Array:
        """``[B, S]`` of log probabilities at the positions that `supervised` has of these rows; 0 at the others."""
        del rows
        return log_probs

    def abstract(self, state: Any, shardings: Any, everywhere: Any) -> tuple[Any, Any]:
        """Shapes and shardings of the state in the form that the step takes; ``everywhere``: a copy on each device."""
        del everywhere
        return state, shardings

    def before(self, state: State, everywhere: Any) -> Any:
        """A state in the form that the step takes; the state is consumed."""
        del everywhere
        return state

    def compiled(self, temporaries: int) -> None:
        """A step has been compiled; ``temporaries``: bytes of the largest so far."""

    def after(self, arrays: Any) -> State:
        """What the step gave, as a state again."""
        state: State = arrays
        return state


ACCELERATORS = ProgramVariant()


@dataclass(frozen=True, kw_only=True)
class StepSpec:
    """Everything the step is made of; two equal specs compile to the same program."""

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
    """Adapters, which are then all that is trained."""
    variant: ProgramVariant = ACCELERATORS

    def trains(self, name: str) -> bool:
        """Whether the tensor of this flat name is trained."""
        return is_adapter(name) if self.lora else not is_frozen(name, self.shape)

    def trained(self, params: Params) -> dict[str, Any]:
        """Flat tree of what is trained."""
        return {name: x for name, x in flatten_params(params).items() if self.trains(name)}

    def frozen(self, params: Params) -> dict[str, Any]:
        """Flat tree of what is not trained: the rest."""
        return {name: x for name, x in flatten_params(params).items() if not self.trains(name)}

    def saved(self, params: Params) -> dict[str, Any]:
        """Flat tree of what a checkpoint holds: adapters, or else the whole model."""
        return self.trained(params) if self.lora else flatten_params(params)

    def fresh_moments(self, params: Params) -> dict[str, Any]:
        """Optimizer state at step 0: slot -> flat name -> array; the float32 master is one of the slots."""
        leaves = self.trained(params)
        # With a master the stored weights are only its rounding; updates start from the master.
        master = {MASTER: {name: x.astype(jnp.float32) for name, x in leaves.items()}}
        return self.optimizer.init(leaves) | (master if self.rounding == "master_fp32" else {})


def all_hidden_states(spec: StepSpec, params: Params, rows: Arrays) -> jax.Array:
    """``[B, S, D]`` normed hidden states of one micro batch."""
    return hidden_states(params, spec.shape, rows["tokens"], rows["positions"], rows["segment_ids"],
                         attention=spec.attention, remat=spec.remat, dtype=spec.compute_dtype, layout=spec.layout)


def micro_batch_loss(spec: StepSpec, params: Params, rows: Arrays) -> jax.Array:
    """Sum of the negative log likelihoods of the supervised tokens of one micro batch, whatever the objective."""
    return loss_sum(all_hidden_states(spec, params, rows), unembedding(params), rows["targets"], rows["loss_mask"],
                    spec.shape, spec.layout, spec.loss_chunk)


Reported = tuple[jax.Array, jax.Array]
"""Value of the objective, and ``[K, 2]``: sums and counts of its metrics."""


def gradients(spec: StepSpec, params: Params, batch: Arrays,
              divisor: jax.Array) -> tuple[Reported, Params, jax.Array | None]:
    """The objective over the whole step divided by ``divisor``, its metrics, and its gradient, of what is trained.

    Micro batches are sums, so the split into micro batches does not change the result. Last come the log probabilities
    of the targets ``[A, B, S]``, 0 where they are not supervised, or None for cross entropy.
    """
    # The differentiated function takes only what is trained, so no gradient of a frozen tensor is ever made.
    trained, frozen = unflatten_params(spec.trained(params)), spec.frozen(params)

    def share(p: Params, rows: Arrays) -> tuple[jax.Array, tuple[Reported, jax.Array | None]]:
        all_params = unflatten_params(flatten_params(p) | frozen)
        hidden, rows = spec.variant.supervised(spec, all_params, rows)
        differentiated, (total, metrics, log_probs) = objective_sum(
            spec.objective, hidden, unembedding(all_params), rows, spec.shape, spec.layout, spec.loss_chunk)
        # Divided here, so that the sum over micro batches is the step's gradient as it stands.
        return differentiated / divisor, ((total / divisor, metrics), log_probs)

    def grad(rows: Arrays) -> tuple[tuple[Reported, Params], jax.Array | None]:
        (_, (reported, log_probs)), gradient = jax.value_and_grad(share, has_aux=True)(trained, rows)
        return (reported, gradient), None if log_probs is None else spec.variant.at_positions(log_probs, rows)

    # One micro batch needs no sum, and so no accumulator of the size of all gradients.
    if batch["tokens"].shape[0] == 1:
        sums, log_probs = grad({name: x[0] for name, x in batch.items()})
        return *sums, None if log_probs is None else log_probs[None]

    def add(carry: tuple[Reported, Params], rows: Arrays) -> tuple[tuple[Reported, Params], jax.Array | None]:
        sums, log_probs = grad(rows)
        return jax.tree.map(jnp.add, carry, sums), log_probs

    nothing = jnp.zeros(()), jnp.zeros((len(spec.objective.metrics), 2))
    # The accumulator has the dtype of the weights: in bfloat16 every addition of a micro batch is rounded.
    zero = (nothing, jax.tree.map(jnp.zeros_like, trained))
    total, log_probs = jax.lax.scan(add, zero, batch)
    return *total, log_probs


def changed_share(old: dict[str, jax.Array], new: dict[str, jax.Array]) -> jax.Array:
    """Share of trained parameters whose stored value changed.

    Rows are counted as integers first: a float32 count of single
    elements would stop at 2 ** 24.
    """
    total = float(sum(x.size for x in old.values()))  # a count of billions is no int32
    rows = [jnp.sum(old[name] != new[name], axis=-1, dtype=jnp.int32).astype(jnp.float32) for name in old]
    return sum((jnp.sum(count) for count in rows), jnp.zeros(())) / total


def apply_updates(spec: StepSpec, state: dict[str, Any], grads: dict[str, jax.Array],
                  learning_rate: jax.Array) -> dict[str, Any]:
    """The state after one update with these gradients."""
    step = state["step"] + 1
    old, moments = spec.trained(state["params"]), state["moments"]
    new: dict[str, jax.Array] = {}
    kept: dict[str, dict[str, jax.Array]] = {slot: {} for slot in moments}
    keys = round_keys(spec.seed, step, [*old]) if spec.rounding == "stochastic" else {}
    # An update reads its own tensor's gradient only, so the compiler may free that gradient right after it.
    for name, param in old.items():
        mine = {slot: moments[slot][name] for slot in moments if name in moments[slot]}
        # A float32 master keeps the part of an update that the stored weight loses by rounding.
        source = mine.pop(MASTER, param)
        value, mine = spec.optimizer.update(name, source, grads[name], mine, step, learning_rate)
        if MASTER in moments:
            mine[MASTER] = value
        new[name] = stored(value, param.dtype, keys.get(name))
        for slot, x in mine.items():
            kept[slot][name] = x
    return {"params": unflatten_params(new | spec.frozen(state["params"])), "moments": kept, "step": step}


Step = Callable[[dict[str, Any], Arrays, jax.Array, jax.Array], tuple[dict[str, Any], jax.Array, jax.Array | None]]


def make_step(spec: StepSpec) -> Step:
    """The step: ``(state, batch, divisor, learning_rate) -> (state, numbers, log_probs)``.

    Numbers: value of the objective, gradient norm, share of weights changed; then sum and count of each metric. Log
    probabilities as `gradients` gives them: for cross entropy the program has no such output.
    """
    def step(state: dict[str, Any], batch: Arrays, divisor: jax.Array,
             learning_rate: jax.Array) -> tuple[dict[str, Any], jax.Array, jax.Array | None]:
        reported, grad_tree, log_probs = gradients(spec, state["params"], batch, divisor)
        return *updated(spec, state, reported, grad_tree, learning_rate), log_probs

    return step


def updated(spec: StepSpec, state: dict[str, Any], reported: Reported, grad_tree: Params,
            learning_rate: jax.Array) -> tuple[dict[str, Any], jax.Array]:
    """The state after one update with what `gradients` gave, and the numbers of `make_step`."""
    (value, metrics), clip_norm = reported, spec.optimizer.config.clip_norm
    grads = {name: g.astype(jnp.float32) for name, g in flatten_params(grad_tree).items()}
    # The norm needs all gradients, so none of them can be used up before backward has ended, clipped or not.
    norm = global_norm(grads)
    if clip_norm:
        factor = clip_factor(norm, clip_norm)
        grads = {name: g * factor for name, g in grads.items()}
    new = apply_updates(spec, state, grads, learning_rate)
    changed = changed_share(spec.trained(state["params"]), spec.trained(new["params"]))
    # One small array, so that the host waits for and fetches a single thing in a step.
    return new, jnp.concatenate([jnp.stack([value, norm, changed]), metrics.reshape(-1)])


def make_evaluation(spec: StepSpec) -> Callable[[Params, Arrays], jax.Array]:
    """Sum of the negative log likelihoods of a batch, without update."""
    def evaluate(params: Params, batch: Arrays) -> jax.Array:
        # Micro batches come one after the other, so only one of them has its activations in memory.
        return jnp.sum(jax.lax.map(lambda rows: micro_batch_loss(spec, params, rows), batch))

    return evaluate


def make_log_probs(spec: StepSpec) -> Callable[[Params, Arrays], jax.Array]:
    """``[A, B, S]`` float32 log probabilities of a batch's targets; 0 where they are not supervised."""
    def log_probs(params: Params, batch: Arrays) -> jax.Array:
        def of_micro_batch(rows: Arrays) -> jax.Array:
            hidden, shape = tempered(all_hidden_states(spec, params, rows), spec.shape, temperature_of(spec.objective))
            log_probs_BS = target_log_probs(hidden, unembedding(params), rows["targets"], shape, spec.layout,
                                            spec.loss_chunk)
            return jnp.where(rows["loss_mask"] > 0, log_probs_BS, 0.0)

        return jax.lax.map(of_micro_batch, batch)

    return log_probs
