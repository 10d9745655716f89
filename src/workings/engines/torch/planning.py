"""Planning for GPUs that are not here, without loading PyTorch: a child process traces the programs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from workings.config.training import MeshConfig
from workings.engines.base import EngineRequest, Inspections, NotInspected, ProgramShapes, Refusal
from workings.engines.refusals import refuse, torch_refusals
from workings.engines.source_digest import library_versions, source_digest
from workings.engines.torch.trace.target import trace_for
from workings.hardware.catalog import Target

LIBRARIES = ("torch", "transformers", "peft", "bitsandbytes", "accelerate")
"""Distributions whose version decides what a trace sees."""


class TorchPlanning:
    """`workings.engines.base.PlanningEngine` of the PyTorch engine."""

    name = "torch"
    libraries: tuple[str, ...] = ("torch", "transformers")
    inspected_platforms: tuple[str, ...] = ("gpu",)
    splits_frozen: bool = False
    process_per_device: bool = True

    @classmethod
    def refusals(cls, request: EngineRequest) -> Sequence[Refusal]:
        """Features of the request that the engine does not have."""
        return [*torch_refusals(request)]

    @classmethod
    def inspect_for(cls, request: EngineRequest, programs: ProgramShapes, target: Target) -> Inspections:
        """The engine's own programs under fake tensors, all in one child process: importing PyTorch takes seconds.

        Raises:
            RequestError: the engine does not do what is asked for, or PyTorch is not installed.
            NotInspected: matrices are to be split among devices, which the engine refuses to run.
            WorkingsError: the trace failed.
        """
        # Not inspected rather than refused: then the formula answers, which knows `tp`.
        if request.mesh.tp > 1:
            raise NotInspected("engine: torch splits rows and parameters, not matrices (mesh.tp)")
        refuse(torch_refusals(request))
        # For an absent machine `auto` means all of its devices, not those that this process sees.
        if request.mesh.fsdp == "auto":
            copies = request.mesh.replicate
            request = replace(request, mesh=MeshConfig(fsdp=target.devices // copies, replicate=copies))
        inspections = trace_for(request, programs, target.platform,
                                capability=target.compute_capability, limit_bytes=target.memory_bytes)
        return {name: inspections[name] for name in programs}

    @classmethod
    def inspection_key(cls, target: Target) -> Mapping[str, Any]:
        """Properties of a GPU that decide the reserved memory, versions of libraries, and this engine's source."""
        return {"platform": target.platform, "devices": target.devices, "capability": target.compute_capability,
                "limit_bytes": target.memory_bytes, "versions": library_versions(LIBRARIES),
                "engine": source_digest("workings.engines.torch", "workings.models", "workings.objectives",
                                        modules_of="workings.engines")}

    @classmethod
    def usable_memory(cls, target: Target) -> tuple[int, str]:
        """The whole card."""
        return target.memory_bytes, target.memory_source
