"""From a request to the pieces of the step: dtypes, attention, remat, optimizer, and where every array lies."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from workings.engines.base import EngineRequest
from workings.engines.jax.attention import plain_attention
from workings.engines.jax.init import parameter_shapes
from workings.engines.jax.optimizer import flat, make_rule, nested
from workings.engines.jax.remat import POLICIES
from workings.engines.jax.rounding import MASTER
from workings.engines.jax.sharding import Layout
from workings.engines.jax.step import StepSpec
from workings.errors import RequestError

DTYPES = {"fp32": jnp.float32, "bf16": jnp.bfloat16}


def build_spec(request: EngineRequest, layout: Layout, platform: str) -> StepSpec:
    """The step that a request asks for. Raises `RequestError` for what this engine does not do."""
    precision, memory = request.precision, request.memory
    if precision.parameters == "fp32" and precision.rounding != "nearest":
        raise RequestError(f"precision.rounding: {precision.rounding} with fp32 parameters",
                           "nearest: an fp32 weight keeps the whole update", "precision.rounding=nearest")
    del platform
    return StepSpec(
        shape=request.shape, layout=layout, attention=_attention(memory.attention), remat=POLICIES[memory.remat],
        loss_chunk=memory.loss_chunk, parameter_dtype=DTYPES[precision.parameters],
        compute_dtype=DTYPES[precision.compute], rounding=precision.rounding, seed=request.seed,
        optimizer=make_rule(request.optimizer, DTYPES[precision.moments]))


def _attention(asked: str) -> Any:
    if asked in ("auto", "plain"):
        return plain_attention
    raise RequestError(f"memory.attention: {asked}", "auto or plain", "memory.attention=plain")


def abstract_state(spec: StepSpec, request: EngineRequest) -> dict[str, Any]:
    """The state as shapes and dtypes; nothing is allocated."""
    params = nested(parameter_shapes(request.shape, spec.parameter_dtype))
    moments = jax.eval_shape(spec.fresh_moments, params)
    return {"params": params, "moments": moments, "step": jax.ShapeDtypeStruct((), jnp.int32)}


def state_shardings(spec: StepSpec, abstract: dict[str, Any]) -> dict[str, Any]:
    """Where each array of the state lies: moments lie where their parameter lies."""
    params = spec.layout.params(abstract["params"])
    places = flat(params)
    moments = {slot: {name: places[name] if slot == MASTER else spec.optimizer.place(slot, name, places[name])
                      for name in tree} for slot, tree in abstract["moments"].items()}
    return {"params": params, "moments": moments, "step": spec.layout.everywhere()}


def batch_shapes(shape: tuple[int, ...]) -> dict[str, jax.ShapeDtypeStruct]:
    """A batch as shapes and dtypes."""
    whole = dict.fromkeys(("tokens", "targets", "positions", "segment_ids"), jax.ShapeDtypeStruct(shape, np.int32))
    return whole | {"weights": jax.ShapeDtypeStruct(shape, np.float32)}
