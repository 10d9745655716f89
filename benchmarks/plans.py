"""Shipped recipes planned for machines that are not here, as `workings plan` says.

    python -m benchmarks.plans [GROUP ...]

A TPU by its own compiler, cards by XLA or by a trace of the PyTorch engine: a plan takes up to ten minutes. Only the
groups that are named are planned, or else all; answers of an earlier call stay. Writes `benchmarks/results/plans.json`.
Exits with 1 where a recipe does not fit its machine, or nothing is found in place of one that cannot, and with 3 where
a compiler is not installed.
"""

import importlib.util
import os
import sys
import tempfile
from typing import Any

from tools.result_file import earlier, measured, write_result
from workings.cli.plan import table
from workings.hardware.catalog import target_in_name
from workings.runs.plan import plan

TOO_LARGE = {
    # AdamW on one chip of eight: what was once reported as a limit of the hardware.
    "too_large": ("gemma-2b-v5e8", "v5e-8", "mesh.fsdp=1", "optimizer={name: adamw}", "batch.micro_batch=1",
                  "precision={parameters: bf16, compute: bf16, moments: bf16}", "data.max_length=128"),
    # Every chip is used, and activations, scores and logits do not fit.
    "too_many_tokens": ("gemma-2b-v5e8", "v5e-8", "batch.micro_batch=32", "memory.attention=plain",
                        "memory.remat=none", "memory.loss_chunk=0")}
"""What cannot fit, and the search finds something in its place."""


def _shipped(*recipes: str) -> dict[str, tuple[str, ...]]:
    return {recipe: (recipe, target_in_name(recipe)) for recipe in recipes}


GROUPS: dict[str, dict[str, tuple[str, ...]]] = {
    "v5e8": TOO_LARGE | _shipped("gemma-3-1b-v5e8", "gemma-2b-v5e8", "gemma-2-2b-v5e8"),
    "rewards": _shipped("gemma-3-1b-grpo-v5e8", "gemma-2b-grpo-v5e8", "gemma-3-1b-grpo-rtx5090"),
    # A chip keeps its one row, so that only what is shared gets smaller.
    "slices": {name: ("gemma-2b-v5e8", name, "evaluation={}") for name in (
        "v5e-4", "v5e-8", "v5e-16", "v5e-256", "v5e-256x2", "v6e-4", "v6e-8", "v6e-256")},
    "open_models": _shipped("qwen3-0.6b-lora-t4x2", "qwen3-4b-lora-v5e8", "qwen3-4b-qlora-rtx5090",
                            "smollm3-3b-lora-rtx5090", "qwen3-4b-qlora-t4x2", "qwen3-1.7b-lora-t4",
                            "qwen3.5-2b-lora-t4", "olmo-3-7b-qlora-rtx5090")}
"""Recipe, machine and overrides by a name in the file."""
COMPILERS = ("libtpu", "jax_cuda12_plugin", "torch")
PACKAGES = ("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "torch", "transformers")


def answer(recipe: str, target: str, *overrides: str) -> dict[str, Any]:
    """One plan, in numbers and as it is printed."""
    made = plan(recipe, target, overrides)
    print(recipe, target, *overrides, made.verdict.reasons[0], flush=True)
    return made.to_json() | {
        "command": " ".join(["workings plan", recipe, "--on", target, *overrides]), "printed": table(made, recipe),
        "state_bytes": sum(part.size_bytes for part in made.parts if part.name in ("parameters", "moments")),
        "planned": measured()}


def main(groups: list[str]) -> int:
    """Plan, write after each, judge."""
    if missing := [name for name in COMPILERS if importlib.util.find_spec(name) is None]:
        print(f"not measured: {', '.join(missing)} not installed")
        return 3
    with tempfile.TemporaryDirectory() as cache:
        os.environ["WORKINGS_CACHE"] = cache  # nothing is remembered
        for group in groups or GROUPS:
            for name, question in GROUPS[group].items():
                found = answer(*question)
                # Read again each time: another call may have written meanwhile. Pages quote by dotted paths.
                values = earlier()
                values.setdefault(group, {})[name.replace(".", "-")] = found
                write_result(packages=PACKAGES, values=values)
    return int(not all("nearest" in found if name in TOO_LARGE else found["fits"]
                       for group in groups or GROUPS for name, found in earlier()[group].items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
