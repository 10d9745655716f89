"""Planning for devices that are not here, without loading JAX: a child process compiles."""

import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any

from workings.engines.base import (
    EngineRequest,
    Inspection,
    Inspections,
    NotInspected,
    ProgramName,
    ProgramShape,
    ProgramShapes,
    Refusal,
)
from workings.engines.gpu_settings import gpu_share
from workings.engines.jax.target import PACKAGES, CompilerAbsent, Unimplemented, compile_for
from workings.engines.refusals import jax_refusals, refuse
from workings.engines.source_digest import library_versions, source_digest
from workings.hardware.catalog import Target, compile_target, gpu_config

AT_A_TIME = 2
"""Compilers that run at the same time."""
FLAGS = ("XLA_FLAGS", "LIBTPU_INIT_ARGS")
"""Environment variables that a compiler reads."""


class JaxPlanning:
    """`workings.engines.base.PlanningEngine` of the JAX engine."""

    name = "jax"
    libraries: tuple[str, ...] = ("jax",)
    inspected_platforms: tuple[str, ...] = ("cpu", "gpu", "tpu")
    splits_frozen: bool = True

    @classmethod
    def refusals(cls, request: EngineRequest) -> Sequence[Refusal]:
        """Features of the request that the engine does not have."""
        return [*jax_refusals(request)]

    @classmethod
    def inspect_for(cls, request: EngineRequest, programs: ProgramShapes, target: Target) -> Inspections:
        """The engine's own programs, compiled for a target; if the step is refused, only the step.

        Raises:
            RequestError: the engine lacks a feature of the request.
            NotInspected: the compiler for this target is not installed, or does not do one of the programs.
            WorkingsError: the compiler crashed, or what it compiled is not the split program that was asked for.
        """
        refuse(jax_refusals(request))
        # XLA compiles for a card that is absent only when it is told the card's sizes in full.
        if target.platform == "gpu" and not target.gpu_config:
            raise NotInspected
        compile_one = partial(_compile, request, compile_target(target), _notes(target))
        try:
            inspections: dict[ProgramName, Inspection] = {}
            if "step" in programs:
                inspections["step"] = compile_one(programs["step"], "step")
                # Without a step the other programs' memory is pointless, and every compilation costs time.
                if inspections["step"].refused:
                    return inspections
            # Threads are enough, because each only waits for a child process that compiles.
            with ThreadPoolExecutor(AT_A_TIME) as pool:
                waiting = {name: pool.submit(compile_one, size, name) for name, size in programs.items()
                           if name != "step"}
                return inspections | {name: future.result() for name, future in waiting.items()}
        except CompilerAbsent as absent:
            raise NotInspected(
                f"this machine lacks {absent.expected}; to have it compiled: {absent.try_next}") from absent
        except Unimplemented as error:
            raise NotInspected(
                f"XLA does not compile this program for {target.name}: {str(error).splitlines()[0]}") from error

    @classmethod
    def inspection_key(cls, target: Target) -> Mapping[str, Any]:
        """The machine's description for the compiler, its versions and flags, and this engine's source."""
        # A GPU without a description is never compiled for, so its name is all that there is to key by.
        known = target.platform != "gpu" or target.gpu_config
        return {"machine": compile_target(target) if known else target.name,
                "versions": library_versions(("jax", "jaxlib", *PACKAGES[target.platform])),
                "engine": source_digest("workings.engines.jax", "workings.models", "workings.objectives",
                                        modules_of="workings.engines"),
                # Flags change what the compiler makes of the same program, so they are part of the key.
                "flags": {name: os.environ[name] for name in FLAGS if name in os.environ}}

    @classmethod
    def usable_memory(cls, target: Target) -> tuple[int, str]:
        """Memory of one device: of a GPU the share that XLA reserves for a run, else the catalog's number."""
        limit, source = target.memory_bytes, target.memory_source
        if target.platform != "gpu":
            return limit, source
        share = gpu_share()
        return int(limit * share), f"{100 * share:.0f} % of the card, which a run with JAX takes; {source}"


def _compile(request: EngineRequest, machine: Mapping[str, Any], notes: tuple[str, ...], size: ProgramShape,
             program: ProgramName) -> Inspection:
    return replace(compile_for(request, size, machine, program=program), notes=notes)


def _notes(target: Target) -> tuple[str, ...]:
    """Remarks about a compilation without the GPU."""
    if target.platform != "gpu":
        return ()
    how = ("put together from its datasheet" if gpu_config(target.gpu_config)["derived"]
           else "as XLA's own description of such a card")
    return (f"compiled by XLA for CUDA without the card, which it was told about ({how}); a real card tries several "
            "kernels and may choose others",)
