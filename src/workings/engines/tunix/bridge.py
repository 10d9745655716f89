"""Puts our weights into a state of Tunix's model."""

from typing import Any

import jax
from flax import nnx

from workings.engines.tunix.layout import Path
from workings.errors import RequestError


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
        raise RequestError(f"tensors that Tunix's model does not have like this: {', '.join(sorted(wrong)[:5])}",
                           "the same tensors in both")
    return nnx.from_flat_state([(path, variable.replace(arrays[path])) for path, variable in there.items()])
