"""Turns a request into a `StepSpec`, the sharding of every array, and programs that can be compiled."""

from collections.abc import Callable, Mapping
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding

from workings.engines.base import EngineRequest
from workings.engines.jax import nf4
from workings.engines.jax.attention import Attention, chunked_attention, plain_attention
from workings.engines.jax.flash_attention import flash_refusal, make_flash_attention
from workings.engines.jax.init import parameter_shapes, random_tensor
from workings.engines.jax.layers import POLICIES
from workings.engines.jax.lora import init_adapters, make_lora
from workings.engines.jax.optimizers import make_optimizer
from workings.engines.jax.params_tree import Params, flatten_params, layer_tensor, unflatten_params
from workings.engines.jax.sharding import Layout
from workings.engines.jax.step import MASTER, StepSpec, step
from workings.engines.refusals import jax_refusals, refuse, refuse_uneven_rows
from workings.errors import RequestError
from workings.models.family import PROJECTIONS
from workings.models.shape import ModelShape

DTYPES = {"fp32": jnp.float32, "bf16": jnp.bfloat16}


def build_spec(request: EngineRequest, layout: Layout, platform: str, device_bytes: int = 0) -> StepSpec:
    """The step of a request; ``device_bytes`` as in `StepSpec`. Raises `RequestError` for features it does not have."""
    precision, memory = request.precision, request.memory
    refuse(jax_refusals(request))
    lora = make_lora(request.method, request.shape, layout.shape.tp)
    return StepSpec(
        shape=request.shape, layout=layout, remat=POLICIES[memory.remat],
        attention=_attention(memory.attention, request.shape, layout, platform),
        loss_chunk=memory.loss_chunk, parameter_dtype=DTYPES[precision.parameters],
        compute_dtype=DTYPES[precision.compute], rounding=precision.rounding, seed=request.seed,
        optimizer=make_optimizer(request.optimizer, DTYPES[precision.moments]), objective=request.objective, lora=lora,
        # Several devices of one CPU simulate a mesh, so they run the program of the mesh.
        at_loss_positions=platform == "cpu" and layout.shape.devices == 1 and memory.cpu_optimizations,
        device_bytes=device_bytes)


def _attention(asked: str, shape: ModelShape, layout: Layout, platform: str) -> Attention:
    """The attention function; ``auto``: flash on a TPU if the kernel supports it, chunked on a GPU, plain on a CPU."""
    on_tpu = "chunked" if flash_refusal(shape, layout.mesh.devices.flat[0].device_kind) else "flash"
    usual = {"cpu": "plain", "gpu": "chunked", "tpu": on_tpu}
    name = usual[platform] if asked == "auto" else asked
    if name != "flash":
        return {"plain": plain_attention, "chunked": chunked_attention}[name]
    if platform != "tpu":
        raise RequestError(f"memory.attention: flash does not run on a {platform.upper()}", "a TPU, with engine jax",
                           "memory.attention=chunked")
    return make_flash_attention(shape, layout)


def initial_params(spec: StepSpec, seed: Any) -> Params:
    """Random weights in the step's formats, with its adapters and, for QLoRA, quantized projections."""
    four_bits = {f"{projection}.weight" for projection in PROJECTIONS} if spec.lora and spec.lora.four_bits else set()
    params, stack_seed = {}, seed
    for name, x in parameter_shapes(spec.shape, spec.parameter_dtype).items():
        if layer_tensor(name) not in four_bits:
            params[name] = random_tensor(seed, name, x.shape, spec.shape, x.dtype)
            continue
        weights = random_tensor(stack_seed, name, x.shape, spec.shape, x.dtype)
        # One layer after the other, to save memory.
        codes, scales = jax.lax.map(partial(nf4.quantize, xp=jnp), weights)
        # One stack after the other: the seed of the next stack waits for this one.
        stack_seed, codes, scales = jax.lax.optimization_barrier((stack_seed, codes, scales))
        stem = name.removesuffix("weight")
        params |= {stem + nf4.CODES: codes, stem + nf4.ABSMAX: scales}
    return unflatten_params(params if spec.lora is None else params | init_adapters(seed, spec.lora, spec.shape))


def abstract_state(spec: StepSpec) -> dict[str, Any]:
    """The state as shapes and dtypes; nothing is allocated."""
    params = jax.eval_shape(lambda: initial_params(spec, 0))
    moments = jax.eval_shape(spec.fresh_moments, params)
    return {"params": params, "moments": moments, "step": jax.ShapeDtypeStruct((), jnp.int32)}


def state_shardings(spec: StepSpec, abstract: dict[str, Any]) -> dict[str, Any]:
    """Sharding of each array of the state; moments have that of their parameter, unless their shape differs."""
    shardings = spec.layout.params(flatten_params(abstract["params"]))
    moments = {slot: {name: shardings[name] if slot == MASTER
                      else spec.optimizer.moment_sharding(slot, name, shardings[name]) for name in tree}
               for slot, tree in abstract["moments"].items()}
    return {"params": unflatten_params(shardings), "moments": moments, "step": spec.layout.sharding()}


def bytes_on_device(tree: Any, shardings: Any) -> int:
    """Bytes of a tree of arrays on one device."""
    def local(x: Any, sharding: NamedSharding) -> int:
        return int(prod(sharding.shard_shape(x.shape)) * x.dtype.itemsize)

    return sum(map(local, jax.tree.leaves(tree), jax.tree.leaves(shardings)))


def batch_shapes(shape: tuple[int, ...], signals: tuple[str, ...] = ()) -> dict[str, jax.ShapeDtypeStruct]:
    """A batch as shapes and dtypes, with an objective's signals."""
    arrays = dict.fromkeys(("tokens", "targets", "positions", "segment_ids"), jax.ShapeDtypeStruct(shape, np.int32))
    return arrays | dict.fromkeys(("loss_mask", *signals), jax.ShapeDtypeStruct(shape, np.float32))


def lower_step(spec: StepSpec, abstract: dict[str, Any], shardings: Any, shape: tuple[int, ...],
               more: Mapping[str, np.ndarray] = MappingProxyType({})) -> Any:
    """The step, lowered for a batch ``[A, B, S]``; it donates the state. ``more``: the batch's `loss_positions`."""
    refuse_uneven_rows(shape[1], spec.layout.shape)
    arrays = batch_shapes(shape, spec.objective.signals)
    arrays |= {name: jax.ShapeDtypeStruct(x.shape, x.dtype) for name, x in more.items()}
    batch_shardings = dict.fromkeys(arrays, spec.layout.batch())
    replicated = spec.layout.sharding()
    jitted = jax.jit(partial(step, spec), donate_argnums=0,
                     in_shardings=(shardings, batch_shardings, replicated, replicated),
                     out_shardings=(shardings, replicated, replicated))
    # Divisor and learning rate are arguments, so that a schedule needs one program.
    number = jax.ShapeDtypeStruct((), jnp.float32)
    return jitted.lower(abstract, arrays, number, number)


def forward_program(program: Callable[..., Any], spec: StepSpec, shardings: dict[str, Any]) -> Any:
    """The jitted ``program(spec, params, batch)`` as a function of the last two; its results are on all devices."""
    batch = dict.fromkeys(batch_shapes(()), spec.layout.batch())
    return jax.jit(partial(program, spec), in_shardings=(shardings["params"], batch),
                   out_shardings=spec.layout.sharding())
