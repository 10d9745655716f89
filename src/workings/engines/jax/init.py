"""Random weights, the same on every mesh: each tensor has its own key, made from the seed and its name."""

from hashlib import sha256
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax.params_tree import stacks
from workings.models.family import PER_LAYER_EMBEDDING
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import first_value, layer_shapes, outer_shapes


def tensor_key(seed: jax.Array | int, name: str) -> jax.Array:
    """A random key for one tensor; ``seed`` may be traced, so a new seed compiles nothing."""
    return name_key(jax.random.key(seed), name)


def name_key(key: jax.Array, name: str) -> jax.Array:
    """The key of a name, from a key for all names."""
    # Four bytes of the digest, because `fold_in` takes 32 bits.
    return jax.random.fold_in(key, int.from_bytes(sha256(name.encode()).digest()[:4], "big"))


def parameter_shapes(shape: ModelShape, dtype: Any) -> dict[str, jax.ShapeDtypeStruct]:
    """Flat tree of shapes: layers stacked on the first axis."""
    stacked = {f"layers.{prefix}{name}": (len(layers), *size) for layers, prefix in stacks(shape).items()
               for name, size in layer_shapes(shape, layers[0]).items()}
    return {name: jax.ShapeDtypeStruct(size, dtype) for name, size in (outer_shapes(shape) | stacked).items()}


def random_tensor(seed: jax.Array, name: str, size: tuple[int, ...], shape: ModelShape, dtype: Any) -> jax.Array:
    """Normal weights of variance 1 / fan-in, so that every matrix keeps the scale of what it is given.

    Matrices that write into the residual stream are smaller by ``(2 * layers) ** 0.5``: the sum of all layers then has
    the scale of one. Vectors start as `first_value` says. An embedding has deviation ``width ** -0.5``; Gemma's
    factor brings it to one, and tied logits start with deviation one.
    """
    # The layer axis of a stack makes no matrix of a vector.
    if len(size) - name.startswith("layers.") == 1:
        return jnp.full(size, first_value(name, size[-1], shape), dtype)
    # The last axis of `[out, in]` is the fan-in; that of the embedding `[V, D]` is the width.
    deviation = (shape.per_layer_width if name == PER_LAYER_EMBEDDING else size[-1]) ** -0.5
    if name.endswith(tuple(f"{each}.weight" for each in family_of(shape).residual)):
        deviation *= (2 * shape.layers) ** -0.5
    # Drawn in float32 and rounded last, so every number format starts from the same draws.
    noise = jax.random.normal(tensor_key(seed, name), size, jnp.float32)
    return (noise * deviation).astype(dtype)
