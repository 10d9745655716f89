"""What a trace of a PyTorch step said, kept: tests start the same few tiny runs again and again.

A trace is most of a tiny run's time, and its answer follows from what is asked for. Tests of the trace itself
call `workings.engines.torch.trace.inspect`, which nothing is kept of.
"""

import json
import os
import sys
from collections.abc import Callable
from dataclasses import asdict
from functools import wraps
from pathlib import Path
from typing import Any

from workings.engines.base import EngineRequest, Inspection
from workings.record.atomic import write_bytes
from workings.record.digest import json_digest

MODULE = "workings.engines.torch.engine"


def keep() -> None:
    """From now on a run of this process, and of those forked from it, asks what is kept first."""
    module: Any = sys.modules.get(MODULE)
    if "TESTS_KEPT" not in os.environ:  # a script of `proof`
        return
    if module is None or hasattr(module.inspect_step, "__wrapped__"):
        return

    @wraps(module.inspect_step)
    def here(request: EngineRequest, batch: tuple[int, ...], platform: str, card: Any) -> Inspection:
        return _kept([request.to_json(), list(batch), platform, asdict(card)],
                     lambda: here.__wrapped__(request, batch, platform, card))

    @wraps(module.trace_for)
    def in_a_child(request: EngineRequest, programs: Any, platform: str, **card: Any) -> dict[str, Inspection]:
        return {name: _kept([request.to_json(), name, list(size), platform, card],
                            lambda name=name, size=size: in_a_child.__wrapped__(  # type: ignore[misc]
                                request, {name: size}, platform, **card)[name])
                for name, size in programs.items()}

    module.inspect_step, module.trace_for = here, in_a_child


def _kept(asked: list[Any], trace: Callable[[], Inspection]) -> Inspection:
    place = Path(os.environ["TESTS_KEPT"]) / "traces" / f"{json_digest(asked)}.json"
    if not place.exists():
        place.parent.mkdir(exist_ok=True)
        # The order of its parts is kept, too, which canonical JSON would not do.
        write_bytes(place, json.dumps(asdict(trace())).encode())
    return Inspection.from_json(json.loads(place.read_text()))
