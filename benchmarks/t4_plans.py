"""Memory and time of every recipe for the T4: as it ships, and computing in float32 as before.

    python -m benchmarks.t4_plans [RECIPE ...]

By traces of the PyTorch engine and, for the recipes that used JAX before, by XLA's compiler for CUDA; neither needs a
card. Only the recipes that are named are planned, or else all. Writes `benchmarks/results/t4_plans.json`.
"""

import sys
from pathlib import Path
from typing import Any

from tools.result_file import earlier, write_result
from workings.config.load import shipped_recipes
from workings.hardware.catalog import target_in_name
from workings.runs.plan import plan

RESULT = Path(__file__).parent / "results" / "t4_plans.json"
JAX = ("engine=jax", "precision.compute=fp32", "memory.attention=chunked", "memory.optimizer_in_backward=false")
BEFORE = {"gemma-2b-t4": JAX, "gemma-2b-t4x2": JAX,
          "gemma-3-1b-grpo-t4x2": (*JAX, "mesh.replicate=1", "mesh.fsdp=2")}
"""Overrides that give the recipe of before; for others float32 alone."""


def answer(recipe: str, overrides: tuple[str, ...]) -> dict[str, Any]:
    """What one plan says."""
    made = plan(recipe, target_in_name(recipe), list(overrides), nearest=False)
    print(recipe, *overrides, made.verdict.reasons[0], flush=True)
    assert made.time is not None
    return {"overrides": " ".join(overrides), "fits": made.verdict.fits, "source": made.verdict.source,
            "peak_bytes": made.verdict.peak_bytes, "limit_bytes": made.verdict.limit_bytes,
            "step_seconds": made.step_seconds, "run_seconds": made.time.seconds}


def main(recipes: list[str]) -> None:
    """Plan, and write after each recipe."""
    for recipe in recipes or [name for name in shipped_recipes() if name.endswith(("-t4", "-t4x2"))]:
        now, before = answer(recipe, ()), answer(recipe, BEFORE.get(recipe, ("precision.compute=fp32",)))
        ratio = before["run_seconds"] / now["run_seconds"]
        values = earlier(RESULT) | {recipe.replace(".", "-"): {"now": now, "before": before, "times_faster": ratio}}
        write_result(RESULT, what="Plans of the recipes for the T4, as they ship and computing in float32.",
                     command="python -m benchmarks.t4_plans", values=values,
                     packages=("jax", "jaxlib", "torch", "transformers"))


if __name__ == "__main__":
    main(sys.argv[1:])
