"""The child process that traces programs for `workings.engines.torch.planning`, which loads no framework."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workings.engines.base import EngineRequest, program_shape
from workings.engines.child_process import answer_parent
from workings.engines.torch.planning import TracedCard
from workings.errors import RequestError
from workings.hints import pip_install


def trace(ask: Mapping[str, Any]) -> dict[str, Any]:
    """The traces of a request's programs. Raises `RequestError` for a wrong request or an absent library."""
    try:
        from workings.engines.torch.trace.inspect import inspect_program
    except ModuleNotFoundError as error:
        raise RequestError(f"a plan for engine torch needs {error.name}", "the libraries of this engine",
                           pip_install("torch")) from error
    request, card = EngineRequest.from_json(ask["request"]), TracedCard(**ask["card"])
    traced = {name: inspect_program(request, name, program_shape(name, size), ask["platform"], card)
              for name, size in ask["programs"].items()}
    return {"programs": {name: asdict(inspection) for name, inspection in traced.items()}}


if __name__ == "__main__":
    answer_parent(trace)
