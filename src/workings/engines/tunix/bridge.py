"""Between our state and Tunix's: weights both ways, bit for bit."""

from functools import partial
from typing import Any

import jax
from flax import nnx

from workings.engines.jax.params_tree import Params
from workings.engines.tunix.layout import Path, from_tunix, to_tunix
from workings.engines.tunix.models import model_class
from workings.errors import RequestError
from workings.models.shape import ModelShape
from workings.models.weights import EMBEDDING


def tunix_model(params: Params, shape: ModelShape, *, remat: bool = False) -> nnx.Module:
    """Tunix's own model with our weights, bit for bit.

    Raises:
        RequestError: Tunix's classes cannot be a model of this shape.
    """
    dtype = params[EMBEDDING].dtype
    graph, state = nnx.split(nnx.eval_shape(model_class(shape, dtype, remat=remat)))
    return nnx.merge(graph, filled(state, jax.jit(partial(to_tunix, shape=shape))(params)))


def filled(state: Any, arrays: dict[Path, jax.Array]) -> Any:
    """An nnx state with these arrays in place of its arrays.

    Raises:
        RequestError: a tensor is missing or left over, or has another shape.
    """
    there = dict(nnx.to_flat_state(state))
    # Compared before anything is put in: nnx would take an array of another shape and fail much later, inside a step.
    wrong = {".".join(map(str, path)) for path in there.keys() ^ arrays.keys()}
    wrong |= {".".join(map(str, path)) for path in there.keys() & arrays.keys()
              if there[path].get_value().shape != arrays[path].shape}
    if wrong:
        raise RequestError(f"Tunix's model does not have tensors like these: {', '.join(sorted(wrong)[:5])}",
                           "the same tensors in both")
    return nnx.from_flat_state([(path, variable.replace(arrays[path])) for path, variable in there.items()])


def our_params(model: nnx.Module, shape: ModelShape) -> Params:
    """Weights of Tunix's model as our tree, bit for bit."""
    flat = nnx.to_flat_state(nnx.state(model, nnx.Param))
    return jax.jit(partial(from_tunix, shape=shape))({path: variable.get_value() for path, variable in flat})
