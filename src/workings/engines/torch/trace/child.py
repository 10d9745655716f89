"""The child process that traces programs (`workings.engines.torch.planning`), because planning loads no framework."""

import json
import sys
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from workings.engines.base import EngineRequest, program_shape
from workings.engines.child_process import wrong
from workings.engines.torch.planning import TracedCard
from workings.errors import RequestError
from workings.hints import pip_install


def trace(ask: Mapping[str, Any]) -> dict[str, Any]:
    """What is found about the programs of a request, or why nothing is."""
    try:
        from workings.engines.torch.trace.inspect import inspect_program
    except ModuleNotFoundError as error:
        return wrong(RequestError(f"a plan for engine torch needs {error.name}", "the libraries of this engine",
                                  pip_install("torch")))
    request, card, answers = EngineRequest.from_json(ask["request"]), TracedCard(**ask["card"]), dict[str, Any]()
    try:
        for name, size in ask["programs"].items():
            traced = inspect_program(request, name, program_shape(name, size), ask["platform"], card)
            answers[name] = asdict(traced) | {"breakdown": dict(traced.breakdown), "versions": dict(traced.versions)}
    except RequestError as error:
        return wrong(error)
    return {"programs": answers}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(trace(json.load(sys.stdin))) + "\n")
