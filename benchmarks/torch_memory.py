"""What the PyTorch engine's step needs on cards that are not here, by trace.

    python -m benchmarks.torch_memory [NAME…]

The very step under fake tensors (two updates, optimizer included), then a replay of the caching allocator. With names:
only these, and nothing is written. Writes `benchmarks/results/torch_memory.json`; exits with 1 where a goal is missed.
About ten minutes on two cores.
"""

import sys
from pathlib import Path
from typing import Any

from tools.result_file import write_result
from workings.config.method import FULL, QloraConfig
from workings.config.training import (
    AdafactorConfig,
    AdamW8bitConfig,
    AdamWConfig,
    MemoryConfig,
    PrecisionConfig,
)
from workings.engines.base import EngineRequest
from workings.engines.torch.planning import trace_for
from workings.engines.torch.trace.inspect import CONTEXT, UNUSED
from workings.hardware.catalog import find_target
from workings.models.shapes import published_shape

RESULT = Path(__file__).parent / "results" / "torch_memory.json"
GIB = 2 ** 30
BF16 = {"parameters": "bf16", "compute": "bf16", "moments": "bf16", "rounding": "stochastic"}
WIDE_MOMENTS = BF16 | {"moments": "fp32"}
STORED = WIDE_MOMENTS | {"compute": "fp32"}
FP32: dict[str, str] = {}
SAVING = {"remat": "layer", "loss_chunk": 128}
IN_BACKWARD = SAVING | {"optimizer_in_backward": True}
ADAFACTOR, ADAMW, ADAMW8 = (AdafactorConfig(name="adafactor"), AdamWConfig(name="adamw"),
                            AdamW8bitConfig(name="adamw8bit"))
G2, G3 = "gemma-2b", "gemma-3-4b"
QLORA = QloraConfig(name="qlora")

CASES: dict[str, tuple[str, str, tuple[int, int, int], Any, dict[str, str], dict[str, Any], Any, float]] = {
    # name: model, card, batch, optimizer, precision, memory, method, most GiB reserved that are promised (0: it fits)
    "gemma-2b-t4-bf16": (G2, "t4", (1, 1, 512), ADAFACTOR, WIDE_MOMENTS, IN_BACKWARD, FULL, 7.5),
    "gemma-2b-t4-bf16-storage": (G2, "t4", (1, 1, 512), ADAFACTOR, STORED, IN_BACKWARD, FULL, 0),
    "gemma-2b-t4-fp32": (G2, "t4", (1, 1, 512), ADAFACTOR, FP32, IN_BACKWARD, FULL, 0),
    "gemma-2b-t4-gradients-kept": (G2, "t4", (1, 1, 512), ADAFACTOR, WIDE_MOMENTS, SAVING, FULL, 0),
    "gemma-2b-t4-nothing-saved": (G2, "t4", (1, 1, 512), ADAMW, BF16, {}, FULL, -1),
    "gemma-2b-rtx5090-adamw-2048": (G2, "rtx5090", (1, 1, 2048), ADAMW, BF16, SAVING, FULL, 0),
    "gemma-2b-rtx5090-adamw-fp32": (G2, "rtx5090", (1, 1, 2048), ADAMW, FP32, SAVING, FULL, -1),
    "gemma-2b-rtx5090-adamw8bit-2048": (G2, "rtx5090", (1, 1, 2048), ADAMW8, WIDE_MOMENTS, SAVING, FULL, 0),
    "gemma-2b-rtx5090-8192": (G2, "rtx5090", (1, 1, 8192), ADAFACTOR, WIDE_MOMENTS, IN_BACKWARD, FULL, 0),
    "gemma-2b-rtx5090-adamw-8192": (G2, "rtx5090", (1, 1, 8192), ADAMW, BF16, SAVING, FULL, 0),
    "gemma-3-4b-qlora-t4-2048": (G3, "t4", (1, 1, 2048), ADAMW,
                                 {"parameters": "bf16", "compute": "fp32"}, SAVING, QLORA, 0),
    "gemma-3-4b-qlora-t4-2048-bf16": (G3, "t4", (1, 1, 2048), ADAMW,
                                      {"parameters": "bf16", "compute": "bf16"}, SAVING, QLORA, 0),
}
"""Goal -1: it is known not to fit."""


def ask(name: str) -> dict[str, Any]:
    """One trace as plain values."""
    model, card, batch, optimizer, precision, memory, method, goal = CASES[name]
    target = find_target(card)
    request = EngineRequest(shape=published_shape(model), device="gpu", optimizer=optimizer, method=method,
                            precision=PrecisionConfig(**precision), memory=MemoryConfig(**memory))
    found = trace_for(request, {"step": batch}, "gpu", capability=target.compute_capability,
                      limit_bytes=target.memory_bytes)["step"]
    fits = found.peak_bytes <= target.memory_bytes
    reserved = (found.peak_bytes - found.breakdown[CONTEXT]) / GIB
    live = reserved - found.breakdown.get(UNUSED, 0) / GIB
    met = fits == (goal >= 0) and (goal <= 0 or reserved <= goal)
    print(f"{name:36} {live:6.2f} live {reserved:6.2f} reserved "
          f"{found.peak_bytes / GIB:6.2f} of {target.memory_bytes / GIB:.2f} GiB {'fits' if fits else 'does not fit'}"
          f"{'' if met else '  GOAL MISSED'} ({found.seconds['trace']} s)", flush=True)
    return {"model": model, "card": card, "batch": list(batch), "optimizer": optimizer.name, "method": method.name,
            "precision": request.precision.model_dump(), "memory": request.memory.model_dump(), "fits": fits,
            "goal_met": met, "peak_bytes": found.peak_bytes, "limit_bytes": target.memory_bytes,
            "live_gib": round(live, 3), "reserved_gib": round(reserved, 3),
            "peak_gib": round(found.peak_bytes / GIB, 3), "limit_gib": round(target.memory_bytes / GIB, 3),
            "breakdown_gib": {part: round(size / GIB, 3) for part, size in found.breakdown.items()},
            "notes": list(found.notes), "seconds": dict(found.seconds), "versions": dict(found.versions)}


def main(names: list[str]) -> int:
    """Trace, write, judge."""
    found = {name: ask(name) for name in names or CASES}
    if not names:
        write_result(RESULT, what="Memory of the PyTorch engine's step on cards that are not here, by trace.",
                     command="python -m benchmarks.torch_memory", values=found, packages=("torch", "transformers"))
    return 0 if all(value["goal_met"] for value in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
