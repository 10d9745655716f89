"""The shipped recipes that learn from rewards, compiled for their machines, which are not here: memory and time.

    python -m benchmarks.plan_rewards

Writes `benchmarks/results/plan_rewards.json`. Exits with 1 where one of them does not fit its machine, and with 3 where
a compiler is not installed.
"""

import importlib.util
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.result_file import load_average, write_result
from workings.runs.plan import plan

RECIPES = {"gemma-3-1b-grpo-v5e8": "v5e-8", "gemma-2b-grpo-v5e8": "v5e-8", "gemma-3-1b-grpo-t4x2": "t4x2",
           "gemma-3-1b-grpo-rtx5090": "rtx5090"}
"""Recipe -> machine."""
COMPILERS = ("libtpu", "jax_cuda12_plugin")
RESULT = Path(__file__).parent / "results" / "plan_rewards.json"


def ask(recipe: str, target: str) -> dict[str, Any]:
    """One plan as plain values, with its seconds."""
    start = time.monotonic()
    made = plan(recipe, target, nearest=False)
    print(recipe, made.verdict.reasons[0], flush=True)
    return made.to_json() | {"seconds": round(time.monotonic() - start, 1)}


def main() -> int:
    """Compile, write, judge."""
    if missing := [name for name in COMPILERS if importlib.util.find_spec(name) is None]:
        print(f"not measured: {', '.join(missing)} not installed")
        return 3
    before = load_average()
    with tempfile.TemporaryDirectory() as cache:
        # Everything is compiled: nothing is remembered.
        os.environ["WORKINGS_CACHE"] = cache
        found = {recipe: ask(recipe, target) for recipe, target in RECIPES.items()}
    write_result(RESULT, what="Memory per device and time of the shipped recipes that learn from rewards, by the "
                              "compilers of their machines, without the machines.",
                 command="python -m benchmarks.plan_rewards", values=found,
                 packages=("jax", "jaxlib", "libtpu", "jax-cuda12-plugin"), load_before=before)
    return 0 if all(each["fits"] for each in found.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
