"""Plans for GPUs of other machines. A child process traces the programs, so planning does not load PyTorch."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from workings.config.training import MeshConfig
from workings.engines import base
from workings.engines.child_process import ask_child
from workings.engines.refusals import refuse, torch_refusals
from workings.engines.source_digest import library_versions, source_digest
from workings.hardware.catalog import Target


@dataclass(frozen=True, kw_only=True)
class TracedCard:
    """Properties of a CUDA GPU that decide how much memory a step reserves."""

    capability: str = ""
    """Compute capability, e.g. ``7.5``; empty where it is not known."""
    limit_bytes: int = 0
    """Memory of the GPU; 0: not known."""
    kernels: bool = True
    """Whether the kernels of `triton` run there, where the GPU's matrix units are new enough."""


def trace_for(request: base.EngineRequest, programs: base.ProgramShapes, platform: str,
              card: TracedCard) -> dict[base.ProgramName, base.Inspection]:
    """Trace programs of the PyTorch engine on a ``gpu`` or ``cpu``; the result of each by its name.

    ``request.mesh`` says how many processes share a step. Raises `RequestError` for what the engine does not do or if
    PyTorch is not installed, and `WorkingsError` if the trace fails.
    """
    ask = {"request": request.to_json(), "programs": dict(programs), "platform": platform, "card": asdict(card)}
    answer, _ = ask_child("workings.engines.torch.trace.child", ask, "the trace of the PyTorch step")
    return {name: base.Inspection.from_json(inspected) for name, inspected in answer["programs"].items()}


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
    def refusals(cls, request: base.EngineRequest) -> Sequence[base.Refusal]:
        """Features of the request that the engine does not have."""
        return [*torch_refusals(request)]

    @classmethod
    def inspect_for(cls, request: base.EngineRequest, programs: base.ProgramShapes, target: Target) -> base.Inspections:
        """Traces of the programs. Raises `NotInspected` for matrices that are split, and as `trace_for`."""
        # The plan then uses the memory formulas, which know `tp`.
        if request.mesh.tp > 1:
            raise base.NotInspected("engine: torch splits rows and parameters, not matrices (mesh.tp)")
        refuse(torch_refusals(request))
        if request.mesh.fsdp == "auto":
            copies = request.mesh.replicate
            request = replace(request, mesh=MeshConfig(fsdp=target.devices // copies, replicate=copies))
        return trace_for(request, programs, target.platform, TracedCard(
            capability=target.compute_capability, limit_bytes=target.memory_bytes))

    @classmethod
    def inspection_key(cls, target: Target) -> Mapping[str, Any]:
        """What a trace depends on: properties of the GPU, versions of libraries, and this engine's source."""
        return {"platform": target.platform, "devices": target.devices, "capability": target.compute_capability,
                "limit_bytes": target.memory_bytes, "versions": library_versions(LIBRARIES),
                "engine": source_digest("workings.engines.torch", "workings.models", "workings.objectives",
                                        modules_of="workings.engines")}

    @classmethod
    def usable_memory(cls, target: Target) -> tuple[int, str]:
        """The whole GPU."""
        return target.memory_bytes, target.memory_source
