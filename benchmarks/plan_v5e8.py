"""The shipped v5e-8 recipes compiled for a TPU v5e-8 that is not here, and two that do not fit with their way out.

    python -m benchmarks.plan_v5e8

Writes `benchmarks/results/plan_v5e8.json`; `seconds` of a recipe that does not fit are those from the question to a
compiled plan that fits. Exits with 1 where a recipe that ships for a v5e-8 does not fit one, or nothing is found for
one that does not, and with 3 where the TPU compiler is not installed.
"""

import importlib.util
import os
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.result_file import load_average, write_result
from workings.runs.plan import plan

RECIPES = ("gemma-3-1b-v5e8", "gemma-2b-v5e8", "gemma-2-2b-v5e8")
TOO_LARGE = ("mesh.fsdp=1", "optimizer={name: adamw}", "precision={parameters: bf16, compute: bf16, moments: bf16}",
             "batch.micro_batch=1", "data.max_length=128")
"""Gemma 2B with AdamW on one chip of eight: what was once reported as a limit of the hardware."""
TOO_MANY_TOKENS = ("batch.micro_batch=32", "memory.attention=plain", "memory.remat=none", "memory.loss_chunk=0")
"""Every chip is used, and activations, scores and logits do not fit."""
RESULT = Path(__file__).parent / "results" / "plan_v5e8.json"
GIB = 2**30


def ask(recipe: str, *overrides: str) -> dict[str, Any]:
    """One plan as plain values, with its seconds."""
    start = time.monotonic()
    made = plan(recipe, "v5e-8", overrides)
    values = made.to_json() | {"seconds": round(time.monotonic() - start, 1), "overrides": list(overrides),
                               "peak_gib": round(made.verdict.peak_bytes / GIB, 3),
                               "limit_gib": round(made.verdict.limit_bytes / GIB, 3),
                               "details": asdict(made.inspection)}
    if made.nearest is not None:
        values["nearest"] = values["nearest"] | {"peak_gib": round(made.nearest.peak_bytes / GIB, 3)}
    print(recipe, *overrides, made.verdict.reasons[0], f"{values['seconds']} s", flush=True)
    return values


def main() -> int:
    """Compile, write, judge."""
    if importlib.util.find_spec("libtpu") is None:
        print("not measured: libtpu is not installed")
        return 3
    before = load_average()
    with tempfile.TemporaryDirectory() as cache:
        # Everything is compiled: nothing is remembered.
        os.environ["WORKINGS_CACHE"] = cache
        found = {"too_large": ask("gemma-2b-v5e8", *TOO_LARGE),
                 "too_many_tokens": ask("gemma-2b-v5e8", *TOO_MANY_TOKENS)}
        found |= {recipe: ask(recipe) for recipe in RECIPES}
    write_result(RESULT, what="Memory per chip of the shipped v5e-8 recipes by the TPU compiler, without the chip.",
                 command="python -m benchmarks.plan_v5e8", values=found, packages=("jax", "jaxlib", "libtpu"),
                 load_before=before)
    ways_out = all("nearest" in found[name] for name in ("too_large", "too_many_tokens"))
    return 0 if all(found[recipe]["fits"] for recipe in RECIPES) and ways_out else 1


if __name__ == "__main__":
    sys.exit(main())
