"""Planning with the JAX engine for devices that need not be here. JAX is loaded only in a child process."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from workings.engines import base
from workings.engines.gpu_settings import gpu_share
from workings.engines.jax.target import PACKAGES, compile_for
from workings.engines.refusals import jax_refusals, refuse
from workings.engines.source_digest import library_versions, source_digest
from workings.hardware.catalog import Target, compile_target, gpu_config

AT_A_TIME = 2
"""Number of compilers that run at the same time."""
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Environment variables that a compiler reads."""


class JaxPlanning:
    """`workings.engines.base.PlanningEngine` of the JAX engine."""

    name = "jax"
    libraries: tuple[str, ...] = ("jax",)
    inspected_platforms: tuple[str, ...] = ("cpu", "gpu", "tpu")
    splits_frozen: bool = True

    @classmethod
    def refusals(cls, request: base.EngineRequest) -> Sequence[base.Refusal]:
        """Features of the request that the engine does not have."""
        return [*jax_refusals(request)]

    @classmethod
    def inspect_for(cls, request: base.EngineRequest, programs: base.ProgramShapes, target: Target) -> base.Inspections:
        """Inspections of the engine's own programs, compiled for a target; only the step if it is refused."""
        refuse(jax_refusals(request))
        # XLA needs a full description of a GPU that is absent.
        if target.platform == "gpu" and not target.gpu_config:
            raise base.NotInspected
        machine, notes = cls._machine(target), _notes(target)

        def inspect(name: base.ProgramName) -> base.Inspection:
            return replace(compile_for(request, programs[name], machine, program=name), notes=notes)

        inspections: dict[base.ProgramName, base.Inspection] = {}
        if "step" in programs:
            inspections["step"] = inspect("step")
            if inspections["step"].refused:
                return inspections
        others = [name for name in programs if name != "step"]
        with ThreadPoolExecutor(AT_A_TIME) as pool:
            return inspections | dict(zip(others, pool.map(inspect, others), strict=True))

    @classmethod
    def inspection_key(cls, target: Target) -> Mapping[str, Any]:
        """The machine's description for the compiler, its versions and flags, and this engine's source."""
        # A GPU without a description is never compiled for, so its name is enough.
        known = target.platform != "gpu" or target.gpu_config
        return {"machine": cls._machine(target) if known else target.name,
                "versions": library_versions(("jax", "jaxlib", *PACKAGES[target.platform])),
                "engine": source_digest("workings.engines.jax", "workings.models", "workings.objectives",
                                        modules_of="workings.engines"),
                "flags": {name: os.environ[name] for name in FLAGS if name in os.environ}}

    @classmethod
    def _machine(cls, target: Target) -> Mapping[str, Any]:
        return {**compile_target(target), "memory_bytes": cls.usable_memory(target)[0]}

    @classmethod
    def usable_memory(cls, target: Target) -> tuple[int, str]:
        """Memory of one device: for a GPU the share that XLA reserves for a run, else the catalog's number."""
        if target.platform != "gpu":
            return target.memory_bytes, target.memory_source
        share = gpu_share()
        return int(target.memory_bytes * share), (f"{100 * share:.0f} % of the card, which a run with JAX takes; "
                                                  f"{target.memory_source}")


def _notes(target: Target) -> tuple[str, ...]:
    """Remarks about a compilation without the GPU; empty for other targets."""
    if target.platform != "gpu":
        return ()
    how = ("put together from its datasheet" if gpu_config(target.gpu_config)["derived"]
           else "as XLA's own description of such a card")
    return (f"compiled by XLA for CUDA without the card, which it was told about ({how}); a real card tries several "
            "kernels and may choose others",)
