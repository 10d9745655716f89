"""Random weights. Each tensor has its own key, made from the seed and its name, so every mesh has the same weights."""

from hashlib import sha256
from typing import Any

import jax
import jax.numpy as jnp

from workings.engines.jax.params_tree import LAYERS, is_stacked, stacks
from workings.models.family import PER_LAYER_EMBEDDING
from workings.models.registry import family_of
from workings.models.shape import ModelShape
from workings.models.weights import first_value, layer_shapes


def tensor_key(seed: jax.Array | int, name: str) -> jax.Array:
    """A random key for one tensor; ``seed`` may be traced, so a new seed compiles nothing."""
    return name_key(jax.random.key(seed), name)


def name_key(key: jax.Array, name: str) -> jax.Array:
    """The key of a name, from a key for all names."""
    # Four bytes of the digest, because `fold_in` takes 32 bits.
    return jax.random.fold_in(key, int.from_bytes(sha256(name.encode()).digest()[:4], "big"))


def parameter_shapes(shape: ModelShape, dtype: Any) -> dict[str, jax.ShapeDtypeStruct]:
    """Shapes of all parameters by flat name, with the layers of a stack on the first axis."""
    stacked = {f"{LAYERS}{prefix}{name}": (len(layers), *size) for layers, prefix in stacks(shape).items()
               for name, size in layer_shapes(shape, layers[0]).items()}
    sizes = family_of(shape).outer_shapes(shape) | stacked
    return {name: jax.ShapeDtypeStruct(size, dtype) for name, size in sizes.items()}


def random_tensor(seed: jax.Array, name: str, size: tuple[int, ...], shape: ModelShape, dtype: Any) -> jax.Array:
    """Initial values of a tensor: normal with variance 1 / fan-in for a matrix, `first_value` for a vector.

    Matrices that write into the residual stream are smaller by ``(2 * layers) ** 0.5``, so that the sum of all layers
    has the scale of one. An embedding has deviation ``width ** -0.5``.
    """
    if len(size) - is_stacked(name) == 1:
        return jnp.full(size, first_value(name, size[-1], shape), dtype)
    # The last axis is the fan-in of a matrix `[out, in]`, and the width of an embedding `[V, D]`.
    deviation = (shape.per_layer_width if name == PER_LAYER_EMBEDDING else size[-1]) ** -0.5
    if name.endswith(tuple(f"{each}.weight" for each in family_of(shape).residual)):
        deviation *= (2 * shape.layers) ** -0.5
    # In float32, so that every number format starts from the same random numbers.
    return (jax.random.normal(tensor_key(seed, name), size, jnp.float32) * deviation).astype(dtype)
