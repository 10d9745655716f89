"""The norm of all decoders here."""

import jax
import jax.numpy as jnp

from workings.models.shape import ModelShape


def rms_norm(x: jax.Array, weight: jax.Array | None, shape: ModelShape) -> jax.Array:
    """Root-mean-square norm over the last axis, computed in float32, returned in x's dtype; without weight: times 1."""
    wide = x.astype(jnp.float32)
    # Epsilon is inside the root, as in Llama's own code: a vector of zeros stays one of zeros.
    normed = wide * jax.lax.rsqrt(jnp.mean(jnp.square(wide), -1, keepdims=True) + shape.rms_norm_eps)
    if weight is None:
        return normed.astype(x.dtype)
    # Gemma stores its weight as a distance from one and multiplies before it rounds; Llama's family rounds first.
    # This is where transformers rounds, so both give the same numbers in bfloat16, too.
    if shape.norm_plus_one:
        return (normed * (1.0 + weight.astype(jnp.float32))).astype(x.dtype)
    if shape.norm_rounds_once:
        return (normed * weight.astype(jnp.float32)).astype(x.dtype)
    return normed.astype(x.dtype) * weight.astype(x.dtype)
