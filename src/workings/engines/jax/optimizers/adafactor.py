"""Adafactor."""

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding, PartitionSpec

from workings.config.training import AdafactorConfig
from workings.engines.jax.optimizers.base import Moments, Optimizer, is_matrix
from workings.engines.jax.params_tree import is_stacked


class Adafactor(Optimizer):
    """Adafactor (Shazeer and Stern, 2018) with a given learning rate.

    It is transformers' `Adafactor` with ``scale_parameter=False, relative_step=False`` and no first moment.

    A matrix has a row and a column of second moments, a vector a full one. Every matrix of a stack is a matrix of its
    own: means and the clip of the update never cross layers. All float32 values are functions of one element and of
    these small vectors, so the compiler fuses them and no float32 copy of a matrix exists.
    """

    slots = ("exp_avg_sq_row", "exp_avg_sq_col", "exp_avg_sq")
    config: AdafactorConfig

    def init(self, params: dict[str, jax.Array]) -> Moments:
        """Zero moments: a row and a column for a matrix, the whole for a vector."""
        moments: Moments = {slot: {} for slot in self.slots}
        for name, x in params.items():
            if is_matrix(name, x):
                moments["exp_avg_sq_row"][name] = jnp.zeros(x.shape[:-1], self.moment_dtype)
                moments["exp_avg_sq_col"][name] = jnp.zeros((*x.shape[:-2], x.shape[-1]), self.moment_dtype)
            else:
                moments["exp_avg_sq"][name] = jnp.zeros(x.shape, self.moment_dtype)
        return moments

    def moment_sharding(self, slot: str, name: str, parameter: NamedSharding) -> NamedSharding:
        """A row of moments is split as the parameter's rows are, a column as its columns."""
        if slot == "exp_avg_sq":
            return parameter
        # A partition may name fewer axes than the array has; those that it leaves out are not split.
        spec = (*parameter.spec, *[None] * (2 + is_stacked(name) - len(parameter.spec)))
        kept = spec[:-1] if slot == "exp_avg_sq_row" else (*spec[:-2], spec[-1])
        return NamedSharding(parameter.mesh, PartitionSpec(*kept))

    def update(self, name: str, param: jax.Array, grad: jax.Array, moments: dict[str, jax.Array], step: jax.Array,
               learning_rate: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        """See `Optimizer.update`."""
        c = self.config
        # This is 0 at step 1: the zeros that moments begin with get no weight, and no correction is needed.
        decay = 1.0 - step.astype(jnp.float32) ** -c.decay_power
        square = jnp.square(grad) + c.epsilon

        def mixed(slot: str, new: jax.Array) -> jax.Array:
            return decay * moments[slot].astype(jnp.float32) + (1.0 - decay) * new

        axes: tuple[int, ...]
        if is_matrix(name, param):
            # Row times column over the mean of rows approximates the matrix of squares, so two vectors are stored.
            row, col = mixed("exp_avg_sq_row", square.mean(-1)), mixed("exp_avg_sq_col", square.mean(-2))
            factor = jax.lax.rsqrt(row / row.mean(-1, keepdims=True))[..., None] * jax.lax.rsqrt(col)[..., None, :]
            new, axes = {"exp_avg_sq_row": row, "exp_avg_sq_col": col}, (-2, -1)
        else:
            full = mixed("exp_avg_sq", square)
            factor, new, axes = jax.lax.rsqrt(full), {"exp_avg_sq": full}, (-1,)
        # The clip of the paper's section 6: an update whose root mean square is above the threshold is scaled down to
        # it.
        size = jnp.sqrt(jnp.mean(jnp.square(grad * factor), axes, keepdims=True))
        wide = param.astype(jnp.float32)
        direction = grad * factor / jnp.maximum(1.0, size / c.clip_threshold)
        if c.weight_decay and is_matrix(name, param):
            direction = direction + c.weight_decay * wide
        return wide - learning_rate * direction, {slot: x.astype(self.moment_dtype) for slot, x in new.items()}
