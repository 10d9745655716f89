"""A child process that compiles one program of a run for devices that are not here, and prints the memory it needs.

`target.compile_for` starts it. The program is built by the same functions that `JaxEngine` uses. Question and answer
are JSON, with the values of `EngineRequest.to_json`, `compile_target` and `Inspection`:

    {"request": {…}, "program": "step", "batch": [1, 8, 512], "target": {…}}
    {"inspection": {…}}, {"absent": "the package …"} or {"failed": "the compiler's message"}
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental import topologies

from workings.engines.base import EngineRequest, GenerationShape, Inspection, ProgramShape, program_shape
from workings.engines.child_process import answer_parent
from workings.engines.jax.generate import bucket, generate, padded_prompts
from workings.engines.jax.sharding import Layout, make_layout
from workings.engines.jax.spec import (
    abstract_state,
    batch_shapes,
    build_spec,
    bytes_on_device,
    forward_program,
    lower_step,
    state_shardings,
)
from workings.engines.jax.step import MASTER, StepSpec, evaluate, log_probs
from workings.engines.jax.target import PACKAGES, inspection, refusal
from workings.engines.jax.top_tokens import most_likely
from workings.engines.prefill import MAX_PROMPTS, largest_divisor
from workings.models.batch import BatchShape
from workings.objectives.top_tokens import TopTokens

FORWARD: dict[str, Callable[..., Any]] = {"evaluation": evaluate, "log_probs": log_probs}
"""Programs that read a batch without an update, by name."""


class LoweredProgram(NamedTuple):
    """A program that can be compiled, and memory that is not among its compiler's numbers. Bytes are per device."""

    lowered: Any
    waiting_bytes: int
    """State that is no argument of the program and stays in memory meanwhile: the optimizer's."""
    batch_bytes: int
    """The part of its arguments that are the batch."""


def lower_generation(spec: StepSpec, abstract: dict[str, Any], shardings: dict[str, Any],
                     size: GenerationShape, *, drawn: int) -> Any:
    """The program of `Generator` for prompts of this size; ``drawn``: samples of each prompt, 0: greedy."""
    padded, rows = padded_size(size, spec.layout.shape.row_devices, drawn)
    # Shardings come with the parameters, because `Generator` jits without input shardings.
    params = jax.tree.map(lambda x, sharding: jax.ShapeDtypeStruct(x.shape, x.dtype, sharding=sharding),
                          abstract["params"], shardings["params"])
    array = jax.ShapeDtypeStruct
    jitted = jax.jit(partial(generate, spec, padded.new_tokens, drawn > 0), out_shardings=spec.layout.sharding())
    # The number of stop tokens, here two, changes the memory by a few bytes only.
    tokens, lengths = array((padded.prompts, padded.prompt_tokens), np.int32), array((rows,), np.int32)
    limit, stop_ids, real = array((), np.int32), array((2,), np.int32), array((rows,), np.bool_)
    temperature, seeds = array((), jnp.float32), array((rows,), np.uint32)
    return jitted.lower(params, tokens, lengths, limit, stop_ids, real, temperature, seeds)


def padded_size(size: GenerationShape, devices: int, drawn: int) -> tuple[GenerationShape, int]:
    """The size of the program on these devices, padded as `Generator` does, and the number of its rows."""
    copies = largest_divisor(drawn, min(MAX_PROMPTS, size.prompts) // devices)
    prompts = padded_prompts(size.prompts // copies, copies, devices)
    return GenerationShape(prompts, bucket(size.prompt_tokens), bucket(size.new_tokens)), prompts * copies


WARPS = {"threads_per_block_limit": 1024, "threads_per_warp": 32, "shared_memory_per_block": 49152,
         "block_dim_limit_x": 2147483647, "block_dim_limit_y": 65535, "block_dim_limit_z": 65535,
         "registers_per_core_limit": 65536, "registers_per_block_limit": 65536, "thread_dim_limit_x": 1024,
         "thread_dim_limit_y": 1024, "thread_dim_limit_z": 64}
"""Properties of all CUDA GPUs since compute capability 6.0."""


def main(ask: Mapping[str, Any]) -> dict[str, Any]:
    """Lower and compile the program of a request; returns the answer as JSON values."""
    platform = ask["target"]["platform"]
    try:
        versions = {name: version(name) for name in ("jax", "jaxlib", *PACKAGES[platform])}
    except PackageNotFoundError as missing:
        return {"absent": f"the package {missing.name}, whose compiler needs no {platform.upper()}"}
    request = EngineRequest.from_json(ask["request"])
    layout = make_layout(_devices(ask["target"]), request.mesh)
    spec = build_spec(request, layout, platform, ask["target"].get("memory_bytes", 0))
    state = abstract_state(spec)
    shardings = state_shardings(spec, state)
    start = time.monotonic()
    program = _lower(ask, spec, state, shardings)
    lowered = time.monotonic()
    found = _compile(program.lowered, program_shape(ask["program"], ask["batch"]), layout)
    if isinstance(found, str):
        return {"failed": found}
    seconds = {"lower": round(lowered - start, 1), "compile": round(time.monotonic() - lowered, 1),
               "compile_cpu": round(time.process_time(), 1)}
    return {"inspection": asdict(replace(
        found, peak_bytes=found.peak_bytes + program.waiting_bytes, versions=versions,
        exact=exact_bytes(state, shardings) | {"batch": program.batch_bytes}, seconds=seconds))}


def _compile(lowered: Any, size: ProgramShape, layout: Layout) -> Inspection | str:
    """The memory of a program, or the message of a compiler that failed for another reason than memory."""
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        return refusal(error) or str(error)
    if isinstance(size, BatchShape):  # prompts of a generation are copied to all devices
        tokens = tuple(compiled.input_shardings[0][1]["tokens"].shard_shape(size))
        expected = size._replace(rows=size.rows // layout.shape.row_devices)
        if tokens != expected:  # a library that read this host's platform while tracing left the batch whole
            return f"each device's program takes tokens {list(tokens)} and not {list(expected)}"
    return inspection(compiled)


def _devices(target: Mapping[str, Any]) -> tuple[jax.Device, ...]:
    """Devices of the target machine; those of a GPU or TPU need not be here."""
    if target["platform"] == "cpu":
        return tuple(jax.devices("cpu"))
    if target["platform"] == "tpu":
        options = {key: tuple(value) if isinstance(value, list) else value for key, value in target["options"].items()}
        topology = topologies.get_topology_desc(platform="tpu", topology_name=target["topology"], **options)
    else:
        topology = topologies.get_topology_desc(
            platform="cuda", topology_name=target["card"]["name"], topology=target["topology"],
            target_config=target_config(target["card"]))
    return tuple(topology.devices)


def target_config(card: Mapping[str, Any]) -> str:
    """XLA's description of a GPU (text of `GpuTargetConfigProto`), from a file of `hardware/gpu_configs`."""
    known = {key: value for key, value in card.items()
             if key not in ("name", "kind", "derived", "source", "compute_capability")}
    # The letter in `9.0a` stands for instructions that only chips of this generation have.
    major, minor = card["compute_capability"].rstrip("a").split(".")
    extension = "ACCELERATED_FEATURES" if card["compute_capability"].endswith("a") else "NONE"
    fields = " ".join(f"{key}: {value}" for key, value in (WARPS | known).items())
    return (f"gpu_device_info {{ {fields} cuda_compute_capability {{ major: {major} minor: {minor} "
            f'feature_extension: {extension} }} name: "{card["kind"]}" }} platform_name: "CUDA" '
            f'dnn_version_info {{ major: 9 minor: 10 }} device_description_str: "{card["kind"]}"')


def _lower(ask: Mapping[str, Any], spec: StepSpec, state: dict[str, Any], shardings: dict[str, Any]) -> LoweredProgram:
    """The program that is asked for."""
    program, size = ask["program"], program_shape(ask["program"], ask["batch"])
    waiting = bytes_on_device(state, shardings) - bytes_on_device(state["params"], shardings["params"])
    if isinstance(size, GenerationShape):
        drawn = ask["request"]["completions_of_a_prompt"] if program == "drawing" else 0
        lowered = lower_generation(spec, state, shardings, size, drawn=drawn)
        padded, _ = padded_size(size, spec.layout.shape.row_devices, drawn)
        # Prompts are int32. Lengths, seeds and stop tokens are a few bytes per row and are left out.
        return LoweredProgram(lowered, waiting, 4 * padded.prompts * padded.prompt_tokens)
    arrays = batch_shapes(size, spec.objective.signals if program == "step" else ())
    batch = bytes_on_device(arrays, dict.fromkeys(arrays, spec.layout.batch()))
    if program == "step":
        return LoweredProgram(lower_step(spec, state, shardings, size), 0, batch)
    objective, forward = spec.objective, FORWARD[program]
    if program == "log_probs" and isinstance(objective, TopTokens):
        # With this objective the teacher is asked for its most likely tokens.
        forward = partial(most_likely, objective.top_k, spec.shape.vocab_size)
    lowered = forward_program(forward, spec, shardings).lower(state["params"], arrays)
    return LoweredProgram(lowered, waiting, batch)


def exact_bytes(state: dict[str, Any], shardings: dict[str, Any]) -> dict[str, int]:
    """Bytes per device of the parts of the state, from shapes and shardings."""
    slots = {slot: bytes_on_device(tree, shardings["moments"][slot]) for slot, tree in state["moments"].items()}
    master = {"master weights": slots.pop(MASTER)} if MASTER in slots else {}
    parameters = bytes_on_device(state["params"], shardings["params"])
    return {"parameters": parameters, "moments": sum(slots.values())} | master


if __name__ == "__main__":
    answer_parent(main)
