"""AdamW."""

import jax
import jax.numpy as jnp

from workings.config.training import AdamWFields
from workings.engines.jax.optimizers.base import Moments, Optimizer, is_matrix


class AdamW(Optimizer):
    """AdamW with bias correction and decoupled decay (Loshchilov and Hutter, 2019, algorithm 2).

    Moments ``exp_avg`` and ``exp_avg_sq`` have the parameter's shape.
    """

    slots = ("exp_avg", "exp_avg_sq")
    config: AdamWFields

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments of the parameters' shapes."""
        return {slot: {name: jnp.zeros(x.shape, self.moment_dtype) for name, x in params.items()}
                for slot in AdamW.slots}

    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """See `Optimizer.update`."""
        c = self.config
        # Moments may be stored in bfloat16, but this step uses their float32 means, before these are rounded.
        mean = c.beta1 * moments["exp_avg"].astype(jnp.float32) + (1 - c.beta1) * grad
        square = c.beta2 * moments["exp_avg_sq"].astype(jnp.float32) + (1 - c.beta2) * jnp.square(grad)
        count = step.astype(jnp.float32)
        # As in PyTorch, epsilon is added after the correction and after the root.
        direction = (mean / (1 - c.beta1 ** count)) / (jnp.sqrt(square / (1 - c.beta2 ** count)) + c.epsilon)
        # Decay is decoupled: it acts on the weight itself and never enters the moments.
        wide = param.astype(jnp.float32)
        if c.weight_decay and is_matrix(name, param):
            direction = direction + c.weight_decay * wide
        new = {"exp_avg": mean.astype(self.moment_dtype), "exp_avg_sq": square.astype(self.moment_dtype)}
        return wide - learning_rate * direction, new
