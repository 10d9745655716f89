"""What fits where: fine-tuning by model, method, row length and machine, by compilers and by formula.

    python -m benchmarks.what_fits [--compile TARGET ...] [--length N ...]

Every row is planned with one sequence a device, bfloat16 weights, recomputed layers and a chunked loss. Rows of the
targets (and lengths) that are named are compiled, which takes from half a minute to minutes each; all others are
estimated by formula. Compiled rows of an earlier call stay. Writes `benchmarks/results/what_fits.json`, which
`python -m tools.what_fits` turns into a page.
"""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from tools.result_file import ROOT, load_average, write_result
from workings.config.load import check_recipe
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import Target, targets
from workings.models.shapes import published_shape
from workings.planning.plan import device_of, estimate, make_plan
from workings.planning.request import engine_request, longest_batch, mesh_of
from workings.planning.verdict import judge

MODELS = ("gemma-2b", "gemma-2-2b", "gemma-3-270m", "gemma-3-1b", "gemma-3-4b", "gemma-4-e2b", "gemma-4-e4b",
          "gemma-4-12b", "gemma-4-31b", "qwen3-1.7b", "qwen3-4b", "smollm3-3b", "olmo-3-7b")
METHODS: dict[str, dict[str, Any]] = {
    "full": {"optimizer": {"name": "adafactor"},
             "precision": {"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"}},
    "full-adamw": {"optimizer": {"name": "adamw"},
                   "precision": {"parameters": "bf16", "compute": "bf16", "moments": "bf16", "rounding": "stochastic"}},
    "lora": {"optimizer": {"name": "adamw"}, "method": {"name": "lora", "rank": 16},
             "precision": {"parameters": "bf16", "compute": "bf16"}},
    "qlora": {"optimizer": {"name": "adamw"}, "method": {"name": "qlora", "rank": 16},
              "precision": {"parameters": "bf16", "compute": "bf16"}},
}
LENGTHS = (512, 2048, 8192)
MACHINES = ("t4", "t4x2", "l4", "rtx5090", "h100", "v5e-1", "v5e-8")
RESULT = ROOT / "benchmarks" / "results" / "what_fits.json"


def recipe_for(model: str, method: str, length: int, target: Target) -> Any:
    """One row's recipe: everything that saves memory without changing the numbers much is on."""
    values: dict[str, Any] = {
        "name": "what-fits", "model": {"source": "scratch", "shape": model}, "tokenizer": "train",
        "data": {"traces": "addition", "max_length": length}, "batch": {"micro_batch": 1},
        "training": {"steps": 1, "learning_rate": 1e-5}, "memory": {"remat": "layer", "loss_chunk": 128},
    } | METHODS[method]
    if values["precision"]["compute"] in target.no_matrix_units and target.platform == "gpu":
        values = values | {"precision": values["precision"] | {"compute": "fp32"}}
    return check_recipe(values, "a row of what fits where")


def row(model: str, method: str, length: int, target: Target, compiled: bool) -> dict[str, Any]:
    """One verdict on a run's step."""
    recipe, shape = recipe_for(model, method, length, target), published_shape(model)
    if compiled:
        verdict = make_plan(recipe, shape, target, explained=False).verdict
    else:
        request, mesh = engine_request(recipe, shape, target), mesh_of(recipe, target)
        found = estimate(request, longest_batch(recipe, mesh[0]), mesh, target)
        verdict = judge(found, device_of(target, found, mesh, find_planning_engine(recipe.engine)))
    return {"model": model, "method": method, "length": length, "target": target.name, "fits": verdict.fits,
            "marginal": verdict.marginal, "peak_bytes": verdict.peak_bytes, "limit_bytes": verdict.limit_bytes,
            "source": verdict.source}


def main(arguments: list[str]) -> int:
    """All rows."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--compile", nargs="*", default=[])
    parser.add_argument("--length", nargs="*", type=int, default=LENGTHS)
    asked = parser.parse_args(arguments)
    before = load_average()
    kept = {_key(old): old for old in _earlier(RESULT) if old["source"] == "compiled"}
    rows = []
    for name in MACHINES:
        for model in MODELS:
            for method in METHODS:
                for length in LENGTHS:
                    key = (model, method, length, name)
                    compiled = name in asked.compile and length in asked.length and key not in kept
                    found = kept.get(key) if key in kept else row(model, method, length, targets()[name], compiled)
                    rows.append(found)
                    if compiled and found is not None:
                        print(*key, found["fits"], round(found["peak_bytes"] / 2**30, 2), found["source"], flush=True)
    counts = {source: sum(each["source"] == source for each in rows if each) for source in ("compiled", "estimated")}
    # What is written down is what was typed: rows that an earlier call compiled are counted as such.
    write_result(RESULT, what="Verdicts on fine-tuning steps, one sequence a device",
                 command=" ".join(("python -m benchmarks.what_fits", *arguments)),
                 values={"rows": rows, "counts": counts, "methods": METHODS},
                 packages=("jax", "jaxlib", "libtpu", "jax-cuda12-plugin"), load_before=before)
    return 0


def _key(old: dict[str, Any]) -> tuple[Any, ...]:
    return old["model"], old["method"], old["length"], old["target"]


def _earlier(path: Path) -> list[dict[str, Any]]:
    return json.loads(path.read_text(encoding="utf-8"))["values"]["rows"] if path.is_file() else []


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
