"""Rounding of float32 updates to weights stored in bfloat16.

bfloat16 has eight bits of mantissa: an update smaller than about 1/512 of a weight rounds to nothing, which at usual
fine-tuning rates is most of them. Stochastic rounding moves a weight up or down with the probability that makes the
mean exact; a float32 master keeps what rounding would lose.
"""

from collections.abc import Sequence

import jax
import jax.numpy as jnp

from workings.engines.jax.init import tensor_key

MASTER = "master"
"""Slot of the float32 copy of the weights in the optimizer state."""


def stochastic_bfloat16(x: jax.Array, key: jax.Array) -> jax.Array:
    """``x`` (float32) rounded up or down to bfloat16 at random, its mean kept.

    The lower 16 bits of a float32 are the fraction that bfloat16 lacks: adding a uniform 16-bit number carries into
    the upper half with exactly that probability. Values that are not finite stay what they are.
    """
    # A float is sign and magnitude, so adding to its bits moves away from zero for both signs.
    bits = jax.lax.bitcast_convert_type(x, jnp.uint32)
    noise = jax.random.bits(key, x.shape, jnp.uint16).astype(jnp.uint32)
    upper = ((bits + noise) >> 16).astype(jnp.uint16)
    rounded = jax.lax.bitcast_convert_type(upper, jnp.bfloat16)
    return jnp.where(jnp.isfinite(x), rounded, x.astype(jnp.bfloat16))


def round_keys(seed: int, step: jax.Array, names: Sequence[str]) -> dict[str, jax.Array]:
    """Keys of these tensors' rounding at one step: a resumed run draws the same numbers."""
    # The step is folded into all keys by one operation: one for each tensor would be most of a step's scalar code.
    with jax.ensure_compile_time_eval():
        keys = jnp.stack([tensor_key(seed, f"rounding of {name}") for name in names])
    return dict(zip(names, jax.vmap(jax.random.fold_in, (0, None))(keys, step), strict=True))


def stored(value: jax.Array, dtype: jnp.dtype, key: jax.Array | None) -> jax.Array:
    """The value as it is stored: rounded to nearest, or at random by a key."""
    return value.astype(dtype) if key is None else stochastic_bfloat16(value, key)
