"""In a child process: open an engine, run its kernel, print what came out as the last line.

Called as ``python -m workings.doctor.probe ENGINE DEVICE DTYPE…``; the answer is a list, one entry a number format.
"""

import json
import sys
from typing import Any, Literal, cast

from workings.config.model import ShapeConfig
from workings.config.training import AdamWConfig, MemoryConfig, MeshConfig, PrecisionConfig
from workings.engines.base import EngineRequest
from workings.engines.registry import find_engine
from workings.errors import DeviceError, RequestError
from workings.hardware.device import without_alias
from workings.models.shapes import shape_from_config

SMALL = ShapeConfig(family="gemma", layers=1, width=32, mlp_width=32, heads=2, kv_heads=1, head_dim=16)
"""An engine wants a model; this one is never made."""


def run(engine: str, device: str, dtype: str) -> dict[str, Any]:
    """The kernel's result with the device's facts, or the failure in words."""
    asked = without_alias(device)
    precision = PrecisionConfig(compute=cast(Literal["fp32", "bf16"], dtype))
    try:
        found = find_engine(engine)
    except RequestError as error:
        return {"failure": f"engine {engine}: {error.expected}", "mend": error.try_next, "kind": "not installed"}
    try:
        opened = found.engine.open(EngineRequest(
            shape=shape_from_config(SMALL, 256), device=asked, optimizer=AdamWConfig(name="adamw"),
            precision=precision, memory=MemoryConfig(), mesh=MeshConfig(), seed=0))
        checked = opened.check_device()
        facts = opened.describe()
    except DeviceError as error:
        return {"failure": error.given, "mend": error.try_next, "kind": "device"}
    except RequestError as error:
        return {"failure": f"engine {engine}: {error.given}; {error.expected} was expected", "mend": error.try_next,
                "kind": "not offered"}
    return {**checked, "devices": list(checked.get("devices", [facts.kind])), "platform": facts.platform,
            "device": facts.kind, "reason": facts.reason}


if __name__ == "__main__":
    sys.stdout.write(json.dumps([run(sys.argv[1], sys.argv[2], dtype) for dtype in sys.argv[3:]]) + "\n")
