"""Compiling the very step of a run for TPUs that are not here, and asking the compiler how much memory it needs.

libtpu wants its environment before JAX is imported and is noisy, so the compilation runs in a child process
(``python -m workings.engines.jax.target``, a JSON request on standard input, a JSON answer as the last line of
standard output). The child builds the step with the same functions as `JaxEngine` and looks at the compiled module.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from math import prod
from typing import Any

from pydantic import TypeAdapter

from workings.config.method import MethodConfig
from workings.config.training import MemoryConfig, MeshConfig, OptimizerConfig, PrecisionConfig
from workings.engines.base import EngineRequest, Inspection
from workings.errors import RequestError, WorkingsError
from workings.models.shape import ModelShape

REFUSED = (re.compile(r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm"),
           re.compile(r"required for HLO temporaries \(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)"))
"""The two sentences with which the TPU compiler says that memory does not suffice: needed, then available."""
UNITS = {"K": 2 ** 10, "M": 2 ** 20, "G": 2 ** 30, "T": 2 ** 40}
DTYPE_BYTES = {"pred": 1, "s8": 1, "u8": 1, "bf16": 2, "f16": 2, "s16": 2, "u16": 2, "f32": 4, "s32": 4, "u32": 4}


@dataclass(frozen=True, kw_only=True)
class TpuTarget:
    """A TPU slice that the compiler knows."""

    topology: str
    """libtpu's name of the slice, e.g. `v5e:2x4`."""
    accelerator_type: str
    """Cloud's name of it, which libtpu wants in the environment, e.g. `v5litepod-8`."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """What the compiler wants to be told beside the name (`chip_config_name`, `chips_per_host_bounds`)."""


V5E_8 = TpuTarget(topology="v5e:2x4", accelerator_type="v5litepod-8")
"""What Kaggle calls a TPU v5e-8: eight chips of 15.75 GiB usable memory each."""


def compile_for(request: EngineRequest, batch: tuple[int, int, int], target: TpuTarget,
                devices: int = 0) -> Inspection:
    """Compile the step of ``request`` for a batch ``[A, B, S]`` on a TPU slice, without the chip.

    Args:
        request: as for `JaxEngine.open`; ``mesh.fsdp: auto`` takes all chips.
        batch: accumulation, rows over all devices, positions.
        target: the slice.
        devices: use only the first so many chips; 0: all.

    Returns:
        The compiler's bytes per chip. Where it refuses for lack of memory, ``peak_bytes`` is what it said it needs and
        ``details["refused"]`` is its sentence. The compiler may over-estimate: it is a bound, not a measurement.

    Raises:
        RequestError: libtpu is not installed.
        WorkingsError: the compiler failed for another reason than memory.
    """
    ask = {
        "shape": asdict(request.shape), "seed": request.seed, "batch": list(batch), "target": asdict(target),
        "devices": devices, "optimizer": request.optimizer.model_dump(), "precision": request.precision.model_dump(),
        "memory": request.memory.model_dump(), "mesh": request.mesh.model_dump(),
        "method": request.method.model_dump(),
    }
    environment = dict(os.environ) | {
        "JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": target.accelerator_type,
        "TPU_WORKER_HOSTNAMES": "localhost", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
    }
    done = subprocess.run([sys.executable, "-m", "workings.engines.jax.target"], input=json.dumps(ask), text=True,
                          capture_output=True, env=environment, check=False)
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        raise _crash(f"the compiler for {target.topology} crashed (exit code {done.returncode})", done.stderr)
    answer = json.loads(lines[-1])
    if "absent" in answer:
        raise RequestError(f"a plan for {target.topology} without libtpu", answer["absent"],
                           "pip install 'workings[plan]'")
    if "wrong" in answer:
        raise RequestError(*answer["wrong"])
    if "failed" in answer:
        raise _crash(f"compiling for {target.topology} failed: {answer['failed'][:600]}",
                     answer["failed"] + done.stderr)
    return Inspection(peak_bytes=answer["peak_bytes"], source="compiled", breakdown=answer["breakdown"],
                      versions=answer["versions"], details=answer["details"])


def _crash(what: str, said: str) -> WorkingsError:
    """An error that names the file with the compiler's last 200 lines: a crash is no verdict about memory."""
    with tempfile.NamedTemporaryFile("w", prefix="workings-compiler-", suffix=".log", delete=False) as log:
        log.write("\n".join(said.splitlines()[-200:]) + "\n")
    return WorkingsError(f"{what}; this says nothing about memory. Its last lines: {log.name}")


def _request(ask: Mapping[str, Any]) -> EngineRequest:
    """The request as the parent had it."""
    optimizer: Any = TypeAdapter(OptimizerConfig).validate_python(ask["optimizer"])
    method: Any = TypeAdapter(MethodConfig).validate_python(ask["method"])
    return EngineRequest(shape=ModelShape(**ask["shape"]), device="tpu", seed=ask["seed"], optimizer=optimizer,
                         precision=PrecisionConfig(**ask["precision"]), memory=MemoryConfig(**ask["memory"]),
                         mesh=MeshConfig(**ask["mesh"]), method=method)


def refused_bytes(message: str) -> tuple[int, int]:
    """Bytes used and bytes there are, from the compiler's refusal; zeros where the message is another one."""
    found = next(filter(None, (sentence.search(message) for sentence in REFUSED)), None)
    if not found:
        return 0, 0
    return int(float(found[1]) * UNITS[found[2]]), int(float(found[3]) * UNITS[found[4]])


def largest_arrays(text: str, count: int = 8) -> dict[str, int]:
    """The largest array types of a compiled module and their bytes: an unsplit batch or embedding would stand here."""
    found: dict[str, int] = {}
    for dtype, dims in set(re.findall(r"\b(pred|[a-z]+\d+)\[([\d,]+)\]", text)):
        size = DTYPE_BYTES.get(dtype, 0)
        for dim in dims.split(","):
            size *= int(dim)
        found[f"{dtype}[{dims}]"] = size
    return dict(sorted(found.items(), key=lambda item: (-item[1], item[0]))[:count])


def floor_bytes(state: Mapping[str, Any], places: Mapping[str, Any], fsdp: int) -> dict[str, int]:
    """Bytes per device that this step cannot do without: the state, its gradients, one layer's gathered weights."""
    import jax

    def local(x: Any, place: Any) -> int:
        return int(prod(place.shard_shape(x.shape)) * x.dtype.itemsize)

    def total(tree: Any, where: Any) -> int:
        return sum(map(local, jax.tree.leaves(tree), jax.tree.leaves(where)))

    layer = sum(int(prod(x.shape[1:])) * x.dtype.itemsize for x in state["params"]["layers"].values())
    return {"state": total(state, places), "gradients": total(state["params"], places["params"]),
            "gathered_layer": layer if fsdp > 1 else 0}


def _compile(ask: Mapping[str, Any]) -> dict[str, Any]:
    """In the child: lower, compile, and say what came out."""
    import jax
    from jax.experimental import topologies

    from workings.engines.jax.inspect import inspection
    from workings.engines.jax.sharding import make_layout
    from workings.engines.jax.spec import abstract_state, build_spec, lower_step, state_shardings

    try:
        libtpu = version("libtpu")
    except ModuleNotFoundError:
        return {"absent": "the package libtpu, whose compiler needs no chip"}
    options = {key: tuple(value) if isinstance(value, list) else value
               for key, value in ask["target"]["options"].items()}
    chips = tuple(topologies.get_topology_desc(
        platform="tpu", topology_name=ask["target"]["topology"], **options).devices)
    chips = chips[:ask["devices"]] if ask["devices"] else chips
    request, batch = _request(ask), tuple(ask["batch"])
    layout = make_layout(chips, request.mesh.fsdp, request.mesh.tp)
    spec = build_spec(request, layout, "tpu")
    state = abstract_state(spec, request)
    places = state_shardings(spec, state)
    start = time.monotonic()
    lowered = lower_step(spec, state, places, batch)
    lower_seconds, start = time.monotonic() - start, time.monotonic()
    details: dict[str, Any] = {
        "topology": ask["target"]["topology"], "devices": layout.size, "mesh": dict(layout.mesh.shape),
        "batch": list(batch), "lower_seconds": round(lower_seconds, 1),
        "floor": floor_bytes(state, places, layout.fsdp),
        "device_kind": str(getattr(chips[0], "device_kind", "unknown")),
    }
    versions = {"jax": jax.__version__, "jaxlib": version("jaxlib"), "libtpu": libtpu}
    try:
        compiled = lowered.compile()
    except jax.errors.JaxRuntimeError as error:
        used, limit = refused_bytes(str(error))
        if not used:
            return {"failed": str(error)}
        details |= {"refused": str(error).strip().splitlines()[0][:300], "limit_bytes": limit,
                    "compile_seconds": round(time.monotonic() - start, 1)}
        return {"peak_bytes": used, "breakdown": {"needed": used}, "versions": versions, "details": details}
    details["compile_seconds"] = round(time.monotonic() - start, 1)
    details["compile_cpu_seconds"] = round(time.process_time(), 1)
    tokens = compiled.input_shardings[0][1]["tokens"].shard_shape(batch)
    details |= {"tokens_per_device": list(tokens), "largest_arrays": largest_arrays(compiled.as_text())}
    found = inspection(compiled, details)
    return {"peak_bytes": found.peak_bytes, "breakdown": dict(found.breakdown), "versions": versions,
            "details": details}


if __name__ == "__main__":
    try:
        result = _compile(json.load(sys.stdin))
    except RequestError as wrong:
        result = {"wrong": [wrong.given, wrong.expected, wrong.try_next]}
    sys.stdout.write(json.dumps(result) + "\n")
