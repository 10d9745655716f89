"""An objective's value, and the weighted log likelihood that has its gradient.

Shape suffixes: B rows, S positions, D width, V vocabulary, K metrics.
"""

from functools import partial
from typing import Any

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
ObjectiveResult = tuple[jax.Array, jax.Array, jax.Array | None]
"""Value of an objective; ``[K, 2]`` sums and counts of its metrics; ``[B, S]`` log probabilities of the targets, 0
where they are not supervised, or None for cross entropy, which does not keep them, and for several targets."""


def objective_sum(objective: Objective, hidden: jax.Array, head: jax.Array, rows: dict[str, jax.Array],
                  shape: ModelShape, layout: Layout, chunk: int) -> tuple[jax.Array, ObjectiveResult]:
    """A sum of one micro batch that has the objective's gradient, and the values that are reported.

    ``hidden`` ``[B, S, D]``, ``head`` ``[V, D]``; ``rows``: ``targets``, ``loss_mask`` and the objective's signals,
    ``[B, S]``; ``chunk`` as in `loss_sum`. The `ObjectiveResult` is not differentiated.
    """
    targets, mask = rows["targets"], rows["loss_mask"]
    hidden, shape = with_temperature(hidden, shape, temperature_of(objective))
    if isinstance(objective, CrossEntropy):
        total = loss_sum(hidden, head, targets, mask, shape, layout, chunk)
        return total, (total, jnp.zeros((0, 2)), None)
    target_mask = mask
    if isinstance(objective, SeveralTargets):
        target_mask = mask[..., None]
        targets = jnp.stack([rows[name] for name in objective.target_signals], -1).astype(jnp.int32)
    # First a pass over the logits without gradients: an objective may need a whole row's log probabilities before it
    # knows the weight of each token. It costs a third of cross entropy's pass.
    constant = jax.lax.stop_gradient((hidden, head))
    log_probs = target_log_probs(*constant, targets, shape, layout, chunk) * target_mask
    signals = {name: rows[name] for name in objective.signals}

    def value(log_probs: jax.Array) -> tuple[jax.Array, Any]:
        terms = objective.terms(ARRAY, log_probs, mask, signals)
        pairs = [jnp.stack([jnp.asarray(x, jnp.float32) for x in terms.metrics[name]]) for name in objective.metrics]
        return terms.total, jnp.stack(pairs) if pairs else jnp.zeros((0, 2))

    (total, metrics), derivative = jax.value_and_grad(value, has_aux=True)(log_probs)
    # The loss is the negative log likelihood, so a token's weight is its derivative with the opposite sign.
    return (loss_sum(hidden, head, targets, -derivative * target_mask, shape, layout, chunk),
            (total, metrics, log_probs if targets.ndim == 2 else None))
