"""The value of an objective, and its surrogate: a weighted sum of cross entropies with the objective's gradient.

Shape suffixes: B rows, S positions, D width, V vocabulary, K metrics.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp

from workings.engines.jax.loss import loss_sum, target_log_probs, with_temperature
from workings.engines.jax.sharding import Layout
from workings.models.shape import ModelShape
from workings.objectives.base import ArrayFunctions, CrossEntropy, Objective, SeveralTargets
from workings.objectives.policy_gradient import temperature_of

ARRAY = ArrayFunctions(exp=jnp.exp, expm1=jnp.expm1, log=jnp.log, minimum=jnp.minimum, clip=jnp.clip,
                       log_sigmoid=jax.nn.log_sigmoid, stop_gradient=jax.lax.stop_gradient,
                       stack=partial(jnp.stack, axis=-1))


class ObjectiveResult(NamedTuple):
    """What a step reports about one micro batch. It is not differentiated."""

    total: jax.Array
    """Value of the objective."""
    metrics: jax.Array
    """``[K, 2]`` sums and counts of its metrics."""
    log_probs: jax.Array | None
    """``[B, S]`` log probabilities of the targets, 0 if not supervised; None for cross entropy and several targets."""


def objective_sum(objective: Objective, hidden: jax.Array, head: jax.Array, rows: dict[str, jax.Array],
                  shape: ModelShape, layout: Layout, chunk: int) -> tuple[jax.Array, ObjectiveResult]:
    """The surrogate of one micro batch, which is to be differentiated, and the result to report.

    The objective is a function of the targets' log probabilities. Its derivatives by them, with the opposite sign, are
    the constant weights of the surrogate. By the chain rule, both have the same gradient in ``hidden`` and ``head``.
    The value of the surrogate has no meaning.

    ``rows``: ``targets``, ``loss_mask`` and the objective's signals, ``[B, S]`` each; all else as in `loss_sum`.
    """
    mask = rows["loss_mask"]
    hidden, shape = with_temperature(hidden, shape, temperature_of(objective))
    if isinstance(objective, CrossEntropy):
        total = loss_sum(hidden, head, rows["targets"], mask, shape, layout, chunk)
        return total, ObjectiveResult(total, jnp.zeros((0, 2)), None)
    if isinstance(objective, SeveralTargets):
        target_mask = mask[..., None]
        targets = jnp.stack([rows[name] for name in objective.target_signals], -1).astype(jnp.int32)
    else:
        targets, target_mask = rows["targets"], mask
    # A pass over the logits without gradients.
    constant = jax.lax.stop_gradient((hidden, head))
    log_probs = target_log_probs(*constant, targets, shape, layout, chunk) * target_mask
    signals = {name: rows[name] for name in objective.signals}

    def total_and_metrics(log_probs: jax.Array) -> tuple[jax.Array, jax.Array]:
        terms = objective.terms(ARRAY, log_probs, mask, signals)
        pairs = [jnp.stack([jnp.asarray(x, jnp.float32) for x in terms.metrics[name]]) for name in objective.metrics]
        return terms.total, jnp.stack(pairs) if pairs else jnp.zeros((0, 2))

    (total, metrics), derivative = jax.value_and_grad(total_and_metrics, has_aux=True)(log_probs)
    surrogate = loss_sum(hidden, head, targets, -derivative * target_mask, shape, layout, chunk)
    return surrogate, ObjectiveResult(total, metrics, log_probs if targets.ndim == 2 else None)
