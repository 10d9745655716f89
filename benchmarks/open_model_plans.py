"""The recipes of open models (Qwen3, Qwen3.5, SmolLM3, OLMo 3) planned for their machines, as `workings plan` says.

    python -m benchmarks.open_model_plans [RECIPE ...]

A TPU by the TPU's own compiler, cards by a trace of the PyTorch engine; neither needs the chip. A case takes up to ten
minutes. Only the recipes that are named are planned, or else all; answers of an earlier call stay. Writes
`benchmarks/results/open_model_plans.json`, which the README quotes. Exits with 1 where a recipe does not fit.
"""

import sys
from pathlib import Path
from typing import Any

from tools.result_file import earlier, load_average, measured, write_result
from workings.cli.plan import table
from workings.runs.plan import plan

TARGETS = {
    "qwen3-0.6b-lora-t4x2": "t4x2", "qwen3-4b-lora-v5e8": "v5e-8", "qwen3-4b-qlora-rtx5090": "rtx5090",
    "smollm3-3b-lora-rtx5090": "rtx5090", "qwen3-4b-qlora-t4x2": "t4x2", "qwen3-1.7b-lora-t4": "t4",
    "qwen3.5-2b-lora-t4": "t4", "olmo-3-7b-qlora-rtx5090": "rtx5090"}
"""Recipe -> the machine that it is for."""
RESULT = Path(__file__).parent / "results" / "open_model_plans.json"


def place(recipe: str) -> str:
    """A recipe's name in the file: pages quote by dotted paths, so that names have no dot."""
    return recipe.replace(".", "-")


def answer(recipe: str) -> dict[str, Any]:
    """What one plan says, in numbers and as it is printed."""
    made = plan(recipe, TARGETS[recipe], nearest=False)
    print(recipe, made.verdict.reasons[0], flush=True)
    return {"command": f"workings plan {recipe} --on {TARGETS[recipe]} --no-nearest",
            "printed": table(made, recipe), "fits": made.verdict.fits, "source": made.verdict.source,
            "peaks": dict(made.peaks), "peak_bytes": made.verdict.peak_bytes, "limit_bytes": made.verdict.limit_bytes,
            "program": made.program, "versions": dict(made.verdict.versions), "planned": measured()}


def main(recipes: list[str]) -> int:
    """Plan, write after each recipe, judge."""
    before, fits = load_average(), True
    for recipe in recipes or TARGETS:
        found = answer(recipe)
        # Read again each time: another call may have written meanwhile.
        values = earlier(RESULT)
        values[place(recipe)] = found
        fits = fits and found["fits"]
        write_result(RESULT, what="Plans of the shipped recipes for open models.",
                     command="python -m benchmarks.open_model_plans",
                     values={place(key): values[place(key)] for key in TARGETS if place(key) in values},
                     packages=("jax", "jaxlib", "libtpu", "torch", "transformers"), load_before=before)
    return int(not fits)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
