"""Traces for GPUs that are not here, in a child process, so that planning imports no PyTorch."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workings.engines.base import EngineRequest, Inspection, ProgramName, ProgramShapes, program_shape
from workings.engines.child_process import ask_child, wrong
from workings.errors import RequestError
from workings.hints import pip_install


def trace_for(request: EngineRequest, programs: ProgramShapes, platform: str, *,
              capability: str, limit_bytes: int) -> dict[ProgramName, Inspection]:
    """Trace programs of the PyTorch engine on a device; what is found about each, by its name.

    Args:
        request: as for `TorchEngine.open`; ``mesh`` says how many processes share a step.
        programs: by name, with their sizes.
        platform: ``gpu`` or ``cpu``.
        capability: compute capability of the card.
        limit_bytes: memory of the card.

    Raises:
        RequestError: the engine does not do what is asked for, or PyTorch is not installed.
        WorkingsError: the trace failed.
    """
    ask = {"request": request.to_json(), "programs": dict(programs), "platform": platform, "capability": capability,
           "limit_bytes": limit_bytes}
    answer, _ = ask_child("workings.engines.torch.trace.target", ask, "the trace of the PyTorch step")
    return {name: Inspection.from_json(inspected) for name, inspected in answer["programs"].items()}


def _trace(ask: Mapping[str, Any]) -> dict[str, Any]:
    """Trace the programs of a request, in the child process."""
    try:
        # Here, because only the child process may load PyTorch.
        from workings.engines.torch.trace.inspect import TracedCard, inspect_program
    except ModuleNotFoundError as error:
        return wrong(RequestError(f"a plan for engine torch needs {error.name}", "the libraries of this engine",
                                  pip_install("torch")))
    card = TracedCard(capability=ask["capability"], limit_bytes=ask["limit_bytes"])
    answers: dict[str, Any] = {}
    request = EngineRequest.from_json(ask["request"])
    try:
        for name, size in ask["programs"].items():
            traced = inspect_program(request, name, program_shape(name, size), ask["platform"], card)
            answers[name] = asdict(traced) | {"breakdown": dict(traced.breakdown), "versions": dict(traced.versions)}
    except RequestError as error:
        return wrong(error)
    return {"programs": answers}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(_trace(json.load(sys.stdin))) + "\n")
