"""The recipes of the models of 2026 planned for their machines, and what Gemma 4's per-layer embeddings cost there.

    python -m benchmarks.gemma_4_plans [CASE ...]

TPUs by the TPU's own compiler, cards by a trace of the PyTorch engine; neither needs the chip. A TPU case takes up to
ten minutes. Only the cases that are named are planned, or else all; answers of an earlier call stay. Writes
`benchmarks/results/gemma_4_plans.json`, which the documents quote. Exits with 1 where a
shipped recipe does not fit.
"""

import sys
from pathlib import Path
from typing import Any

from tools.result_file import earlier, load_average, measured, write_result
from workings.planning.memory_formulas import PER_LAYER_TABLE
from workings.runs.plan import plan

ON_ONE_T4 = ("mesh.fsdp=1", "batch.micro_batch=1")
"""Gemma 4 E2B's recipe for two T4, on one of them."""
CASES: dict[str, tuple[str, str, tuple[str, ...]]] = {
    "gemma-4-e2b-v5e8": ("gemma-4-e2b-v5e8", "v5e-8", ()),
    "gemma-4-e2b-lora-v5e8": ("gemma-4-e2b-lora-v5e8", "v5e-8", ()),
    "gemma-4-e4b-lora-v5e8": ("gemma-4-e4b-lora-v5e8", "v5e-8", ()),
    "gemma-4-e2b-lora-t4x2": ("gemma-4-e2b-lora-t4x2", "t4x2", ()),
    "gemma-4-e2b-lora-t4-host": ("gemma-4-e2b-lora-t4x2", "t4", ON_ONE_T4),
    "gemma-4-e2b-lora-t4-device": (
        "gemma-4-e2b-lora-t4x2", "t4", (*ON_ONE_T4, "memory.per_layer_embeddings=device")),
    "gemma-4-e2b-lora-rtx5090": ("gemma-4-e2b-lora-rtx5090", "rtx5090", ()),
    "gemma-4-e2b-t4x2": ("gemma-4-e2b-t4x2", "t4x2", ()),
    "gemma-4-e2b-rtx5090": ("gemma-4-e2b-rtx5090", "rtx5090", ()),
    "gemma-4-e4b-qlora-rtx5090": ("gemma-4-e4b-qlora-rtx5090", "rtx5090", ()),
    "gemma-3-270m-t4": ("gemma-3-270m-t4", "t4", ()),
    "gemma-3-270m-cpu": ("gemma-3-270m-cpu", "cpu", ()),
    "qwen3-lora-t4": ("qwen3-1.7b-lora-t4", "t4", ()),  # pages quote by dotted paths, so names have no dot
}
"""Name -> recipe, target, overrides."""
RESULT = Path(__file__).parent / "results" / "gemma_4_plans.json"


def answer(name: str) -> dict[str, Any]:
    """What one plan says, and what to type to get it again."""
    recipe, target, overrides = CASES[name]
    made = plan(recipe, target, overrides, nearest=False)
    tokens = made.batch.all_rows * made.batch.positions
    found: dict[str, Any] = {
        "command": " ".join(("workings plan", recipe, "--on", target, *overrides, "--no-nearest")),
        "target": target, "fits": made.verdict.fits, "marginal": made.verdict.marginal,
        "source": made.verdict.source, "program": made.program, "peaks": dict(made.peaks),
        "peak_bytes": made.verdict.peak_bytes, "limit_bytes": made.verdict.limit_bytes, "tokens_a_step": tokens,
        "table_bytes": sum(part.size_bytes for part in made.parts if part.name == PER_LAYER_TABLE),
        "host_table_bytes": made.host_parts.get(PER_LAYER_TABLE, 0),
        "parts": {part.name: part.size_bytes for part in made.parts}, "versions": dict(made.verdict.versions),
        "planned": measured()}
    if made.step_seconds is not None:
        found |= {"step_seconds": made.step_seconds,
                  "seconds_a_million_tokens": round(1e6 * made.step_seconds / tokens, 1)}
    print(name, made.verdict.reasons[0], flush=True)
    return found


def main(names: list[str]) -> int:
    """Plan, write after each case, judge."""
    before, fits = load_average(), True
    for name in names or CASES:
        found = answer(name)
        # Read again each time: another call may have written meanwhile.
        values = earlier(RESULT) | {name: found}
        fits = fits and (found["fits"] or CASES[name][2] != ())
        write_result(RESULT, what="Plans of the recipes for the models of 2026, and what per-layer embeddings cost.",
                     command="python -m benchmarks.gemma_4_plans", values={key: values[key] for key in CASES
                                                                           if key in values},
                     packages=("jax", "jaxlib", "libtpu", "torch", "transformers"), load_before=before)
    return int(not fits)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
