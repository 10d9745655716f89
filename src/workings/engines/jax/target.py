"""Compiles the programs of a run for devices that need not be here, and reads the memory that they need.

Two compilers need no device: libtpu, and XLA's compiler for CUDA, which gets a description of the GPU. They run in a
child process (`aot_compile`), because they read environment variables before JAX is imported and print a lot.
"""

import os
import re
import site
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import Any

from workings.engines.base import EngineRequest, Inspection, NotInspected, ProgramName, ProgramShape
from workings.engines.child_process import ask_child, crash
from workings.engines.gpu_settings import FLAGS, same_kernels
from workings.errors import first_line
from workings.hints import pip_install

REFUSED = (re.compile(r"Used ([\d.]+)([KMGT]) of ([\d.]+)([KMGT]) hbm"),
           re.compile(r"required for HLO temporaries \(([\d.]+)([KMGT])\) exceeds available HBM \(([\d.]+)([KMGT])\)"))
"""The two messages of the TPU compiler for a lack of memory, with the bytes needed and the bytes available."""
UNITS = {"K": 2 ** 10, "M": 2 ** 20, "G": 2 ** 30, "T": 2 ** 40}
PACKAGES = {"cpu": (), "tpu": ("libtpu",), "gpu": ("jax-cuda12-plugin", "jax-cuda12-pjrt", "nvidia-cuda-nvcc-cu12")}
"""Distributions that a platform's compiler needs in addition to JAX."""


def compiler_environment(target: Mapping[str, Any]) -> dict[str, str]:
    """Environment variables that the compiler for a target reads when it is loaded."""
    # Without a TPU libtpu would wait minutes for a metadata server. Two child processes may load it at once.
    if target["platform"] == "tpu":
        return {"TPU_SKIP_MDS_QUERY": "1", "TPU_ACCELERATOR_TYPE": target["accelerator_type"],
                "TPU_WORKER_HOSTNAMES": "localhost", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}
    if target["platform"] == "gpu":
        # The assembler of the wheel comes first: newer toolkits do not support the oldest GPUs.
        assembler = [str(Path(folder) / "nvidia" / "cuda_nvcc" / "bin") for folder in site.getsitepackages()]
        return {"JAX_SKIP_CUDA_CONSTRAINTS_CHECK": "1",
                "PATH": os.pathsep.join([*assembler, os.environ.get("PATH", "")])}
    return {}


def compile_for(request: EngineRequest, size: ProgramShape, target: Mapping[str, Any],
                program: ProgramName = "step") -> Inspection:
    """Memory of one program of a request on a target (`workings.hardware.catalog.compile_target`).

    The optimizer's state counts for every program, because it stays in memory. If the compiler refuses the program for
    lack of memory, ``peak_bytes`` are the bytes that it says are needed.

    Raises:
        NotInspected: the compiler is not installed, or does not support this program.
        RequestError: the request is wrong.
        WorkingsError: the compiler failed for another reason than memory.
    """
    ask = {"request": replace(request, device=target["platform"]).to_json(), "batch": list(size),
           "target": dict(target), "program": program}
    # The child opens only the CPU; the compiler gets a description of the target.
    environment = dict(os.environ) | compiler_environment(target) | {
        "JAX_PLATFORMS": "cpu", "TF_CPP_MIN_LOG_LEVEL": "1", "JAX_ENABLE_COMPILATION_CACHE": "false"}
    if target["platform"] == "gpu":
        # A run on the GPU uses the same kernels, which decide the memory.
        environment[FLAGS] = same_kernels(environment.get(FLAGS, ""))
    where = str(target.get("topology", target["platform"]))
    answer, said = ask_child("workings.engines.jax.aot_compile", ask, f"the compiler for {where}", environment)
    if "absent" in answer:
        raise NotInspected(f"this machine lacks {answer['absent']}; to have it compiled: {pip_install('plan')}")
    if "failed" in answer:
        if answer["failed"].startswith("UNIMPLEMENTED"):
            raise NotInspected(f"XLA does not compile this program for {where}: {answer['failed'].splitlines()[0]}")
        raise crash(f"compiling for {where} failed: {answer['failed'][:600]}", answer["failed"] + said)
    return Inspection.from_json(answer["inspection"])


def refused_bytes(message: str) -> tuple[int, int]:
    """Bytes needed and bytes available, from the compiler's refusal; zeros for another message."""
    for sentence in REFUSED:
        if match := sentence.search(message):
            return int(float(match[1]) * UNITS[match[2]]), int(float(match[3]) * UNITS[match[4]])
    return 0, 0


def inspection(compiled: Any) -> Inspection:
    """Bytes per device of a compiled program.

    The peak is the larger of two numbers, which are both in the breakdown: the compiler's own peak, and arguments +
    outputs + temporaries - aliased (a donated argument and its output share memory).
    """
    stats = compiled.memory_analysis()
    breakdown = {
        "arguments": int(stats.argument_size_in_bytes), "outputs": int(stats.output_size_in_bytes),
        "temporaries": int(stats.temp_size_in_bytes), "aliased": int(stats.alias_size_in_bytes),
        "code": int(stats.generated_code_size_in_bytes),
        "compiler_peak": int(getattr(stats, "peak_memory_in_bytes", 0)),
    }
    total = breakdown["arguments"] + breakdown["outputs"] + breakdown["temporaries"] - breakdown["aliased"]
    breakdown["sum"] = total
    return Inspection(peak_bytes=max(total, breakdown["compiler_peak"]), source="compiled", breakdown=breakdown,
                      versions={name: version(name) for name in ("jax", "jaxlib")})


def refusal(error: Exception) -> Inspection | None:
    """The memory that the TPU compiler states when it refuses a program for lack of memory; None for another error."""
    needed, limit = refused_bytes(str(error))
    if not needed:
        return None
    return Inspection(
        peak_bytes=needed, source="compiled", breakdown={"needed": needed},
        versions={name: version(name) for name in ("jax", "jaxlib")},
        refused=first_line(error), limit_bytes=limit)
