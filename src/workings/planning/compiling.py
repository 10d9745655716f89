"""The compiler's word about a program, for a machine that is not here; kept in a cache by a digest of what went in.

Of a model that the compiler refuses, two shallow ones are compiled: a step's needs grow in a straight line with layers.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from pathlib import Path
from typing import Any

from workings.engines.base import EngineRequest, Inspection
from workings.engines.jax.target import PACKAGES, CudaTarget, DeviceTarget, HostTarget, TpuTarget, compile_for
from workings.errors import WorkingsError
from workings.hardware import machine
from workings.hardware.catalog import Target, gpu_config
from workings.planning.request import ProgramName, Programs
from workings.record.atomic import write_json
from workings.record.digest import json_digest

AT_A_TIME = 2
"""Compilers that run side by side."""
SCANNED = 5
"""Fewest layers that the engine compiles as a loop; fewer are written out, which is another program."""


def compile_programs(request: EngineRequest, programs: Programs, target: Target) -> dict[ProgramName, Inspection]:
    """What the compiler says about each program, by name; raises as `compile_program` does."""
    with ThreadPoolExecutor(AT_A_TIME) as pool:
        waiting = {name: pool.submit(compile_program, request, size, target, name) for name, size in programs.items()}
        return {name: future.result() for name, future in waiting.items()}


def compile_program(request: EngineRequest, batch: tuple[int, int, int], target: Target,
                    program: ProgramName = "step") -> Inspection:
    """One of the JAX engine's own programs compiled for a target of the catalog; from the cache if asked before.

    Raises:
        CompilerAbsent: the compiler for this target is not installed.
        RequestError: the request is wrong.
        Unimplemented: the compiler does not do this program on this target.
        WorkingsError: the compiler crashed, or what it compiled is not the split program that was asked for.
    """
    place = cache_directory() / f"{_digest(request, batch, target, program)}.json"
    if place.is_file():
        kept = json.loads(place.read_text(encoding="utf-8"))
        kept["details"]["cached"] = True
        return Inspection(**kept)
    found = compile_for(request, batch, device_target(target), program=program)
    check_split(found, batch)
    place.parent.mkdir(parents=True, exist_ok=True)
    write_json(place, asdict(found))
    return found


def device_target(target: Target) -> DeviceTarget:
    """The row of the catalog as the engine's compilers want it."""
    if target.platform == "cpu":
        return HostTarget()
    if target.platform == "gpu":
        return CudaTarget(card=asdict(gpu_config(target.gpu_config)), topology=target.topology)
    return TpuTarget(topology=target.topology, accelerator_type=target.accelerator_type,
                     options=target.topology_options)


def check_split(found: Inspection, batch: tuple[int, int, int]) -> None:
    """Each device's program must hold its own share of the rows.

    A library that asks for the host's platform while tracing can leave a batch whole without a word; the verdict would
    be about a program that no device runs. Raises `WorkingsError` then. Prompts of a generation are copied to all
    devices on purpose.
    """
    if "tokens_per_device" not in found.details:
        return
    expected = [batch[0], batch[1] // found.details["mesh"]["fsdp"], batch[2]]
    if list(found.details["tokens_per_device"]) != expected:
        raise WorkingsError(f"the compiled program takes tokens {found.details['tokens_per_device']} on each device; "
                            f"{expected} were expected, so this is not the program that would run")


def cache_directory() -> Path:
    """Where verdicts are kept: ``WORKINGS_CACHE``, or the person's cache directory."""
    return machine.cache_directory() / "plans"


def _digest(request: EngineRequest, batch: tuple[int, int, int], target: Target, program: ProgramName) -> str:
    machine: Mapping[str, Any] = asdict(device_target(target))
    return json_digest({
        "request": request.to_json(), "batch": list(batch), "program": program, "machine": dict(machine),
        "versions": _versions(target.platform), "engine": _engine_digest(),
        "flags": {name: os.environ[name] for name in ("XLA_FLAGS", "LIBTPU_INIT_ARGS") if name in os.environ},
    })


def _versions(platform: str) -> dict[str, str]:
    found = {}
    for name in ("jax", "jaxlib", *PACKAGES[platform]):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found


def _engine_digest() -> str:
    """Digest of the engine's own source: a changed step is another program."""
    digest = hashlib.sha256()
    for folder in ("workings.engines.jax", "workings.models"):
        for entry in sorted(files(folder).iterdir(), key=lambda entry: entry.name):
            if entry.name.endswith(".py"):
                digest.update(entry.name.encode() + b"\0" + entry.read_bytes())
    return digest.hexdigest()


def depths(layers: int, pattern: int) -> tuple[int, int]:
    """Two numbers of layers that the engine scans, with whole turns of a pattern of sliding and global layers."""
    turn = max(1, pattern)
    shallow = -(-SCANNED // turn) * turn
    return shallow, min(layers, shallow + -(-3 // turn) * turn)


def line(shallow: tuple[int, float], deeper: tuple[int, float], layers: int) -> int:
    """Where the straight line through two measurements (layers, bytes) is at another number of layers."""
    (first, low), (second, high) = shallow, deeper
    return int(low + (high - low) * (layers - first) / (second - first))


def refused_parts(request: EngineRequest, batch: tuple[int, int, int], target: Target) -> dict[str, int]:
    """What lies in the heap of a step that the compiler refused, from two models of the same sizes with few layers.

    Empty where even those are refused, or the model is no deeper than they are.
    """
    first, second = depths(request.shape.layers, request.shape.sliding_pattern)
    if second <= first or request.shape.layers <= second:
        return {}
    heaps: list[Mapping[str, int]] = []
    for layers in (first, second):
        shallow = replace(request, shape=replace(request.shape, layers=layers))
        programs: Programs = {"step": batch}
        found = compile_programs(shallow, programs, target)["step"]
        if "heap" not in found.details:
            return {}
        heaps.append(found.details["heap"])
    return {name: max(0, line((first, heaps[0].get(name, 0)), (second, heaps[1].get(name, 0)), request.shape.layers))
            for name in {**heaps[0], **heaps[1]}}
