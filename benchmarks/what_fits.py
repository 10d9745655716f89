"""What fits where: fine-tuning by model, method, row length and machine, by compilers, by traces and by formula.

    python -m benchmarks.what_fits                                    # every row that no compiler said, by formula
    python -m benchmarks.what_fits --compile 1 [--on TARGET ...]      # this many rows more by the compiler
    python -m benchmarks.what_fits --trace 1 [--on TARGET ...]        # this many rows more by a trace of PyTorch

Every row is planned with one sequence a device, bfloat16 weights, recomputed layers and a chunked loss. Each row holds
what the formula says of it; a compiled one also what the compiler says, so that the formula's error is measured. A row
takes from ten seconds to minutes to compile, and the file is written after each: a call that is cut short loses one,
and the next continues. Models whose layers are all alike come first, for they compile soonest, in an order that mixes
machines, methods and lengths. Compiled rows of earlier calls stay. Models that only PyTorch trains have no rows by
formula, for the formula was fitted to JAX: of them the rows of `TRACED` alone are there, each by a trace. Writes
`benchmarks/results/what_fits.json`.
"""

import argparse
import hashlib
import math
import sys
from statistics import median
from typing import Any

from tools.result_file import earlier, measured, write_result
from workings.config.load import check_recipe
from workings.engines.registry import find_planning_engine
from workings.hardware.catalog import Target, targets
from workings.models.shapes import published_shape
from workings.planning.plan import estimate, make_plan, target_device
from workings.planning.planned_run import PlannedRun
from workings.planning.verdict import memory_verdict

MODELS = ("gemma-2b", "gemma-2-2b", "gemma-3-270m", "gemma-3-1b", "gemma-3-4b", "gemma-4-e2b", "gemma-4-e4b",
          "gemma-4-12b", "gemma-4-31b", "llama-3.2-1b", "qwen2.5-1.5b", "qwen3-1.7b", "qwen3-4b", "smollm3-3b",
          "olmo-3-7b")
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
Key = tuple[str, str, int, str]
"""Model, method, length, machine."""
TRACED: tuple[Key, ...] = tuple(
    (model, method, length, name) for length in (512, 2048) for model, method, name in (
        ("qwen3.5-2b", "lora", "t4"), ("gemma-4-26b-a4b", "lora", "h100"), ("qwen3.5-4b", "lora", "t4"),
        ("qwen3.5-9b", "qlora", "t4"), ("qwen3.5-0.8b", "full", "t4"),
        ("qwen3.5-9b", "lora", "rtx5090"), ("gemma-4-26b-a4b", "qlora", "rtx5090"), ("qwen3.5-2b", "full", "t4"),
        ("qwen3.5-4b", "qlora", "t4"), ("qwen3.5-2b", "full", "rtx5090"), ("qwen3.5-4b", "full", "rtx5090"),
        ("qwen3.5-0.8b", "full-adamw", "t4"), ("qwen3.5-2b", "full-adamw", "rtx5090"),
        ("qwen3.5-9b", "full", "h100"), ("qwen3.5-4b", "lora", "t4x2"), ("qwen3.5-2b", "full", "t4x2"),
        ("qwen3.5-9b", "qlora", "rtx5090"), ("qwen3.5-2b", "qlora", "t4"), ("qwen3.5-0.8b", "lora", "t4"),
        ("qwen3.5-4b", "full-adamw", "h100"), ("qwen3.5-4b", "lora", "rtx5090"), ("gemma-4-26b-a4b", "qlora", "h100"),
        ("gemma-4-26b-a4b", "full-adamw", "h100")))
"""Rows of models that only PyTorch trains, in the order in which they are traced: cards that one would ask about.

A T4 is not asked about experts: it computes in fp32 what is stored in bf16, and experts have
one format for both."""


def recipe_for(model: str, method: str, length: int, target: Target) -> Any:
    """One row's recipe: everything that saves memory without changing the numbers much is on."""
    values: dict[str, Any] = {
        "name": "what-fits", "model": {"source": "scratch", "shape": model}, "tokenizer": "train",
        "data": {"traces": "addition", "max_length": length}, "batch": {"micro_batch": 1},
        "training": {"steps": 1, "learning_rate": 1e-5}, "memory": {"remat": "layer", "loss_chunk": 128},
    } | METHODS[method] | ({"engine": "torch"} if any(model == traced[0] for traced in TRACED) else {})
    if values["precision"]["compute"] in target.no_matrix_units and target.platform == "gpu":
        values = values | {"precision": values["precision"] | {"compute": "fp32"}}
    return check_recipe(values, "a row of what fits where")


def row(key: Key, *, compiled: bool) -> dict[str, Any]:
    """One verdict on a run's step, compiled or traced or by formula, and what the formula says of the same step."""
    model, method, length, name = key
    target = targets()[name]
    recipe, shape = recipe_for(model, method, length, target), published_shape(model)
    run = PlannedRun.on_target(recipe, shape, target)
    found = estimate(run)
    said = {"estimated_bytes": found.peak_bytes}
    if compiled:
        verdict = make_plan(recipe, shape, target).verdict
        said["planned"] = measured()
    else:
        verdict = memory_verdict(found, target_device(target, found, run.mesh, find_planning_engine(recipe.engine)))
    return {"model": model, "method": method, "length": length, "target": name, "fits": verdict.fits,
            "marginal": verdict.marginal, "peak_bytes": verdict.peak_bytes, "limit_bytes": verdict.limit_bytes,
            "source": verdict.source} | said


def error_of(rows: list[dict[str, Any]], source: str) -> dict[str, Any]:
    """How far the formula was off in the compiled or traced rows, as a share of what those say; below zero: too low."""
    off = sorted(((each["estimated_bytes"] / each["peak_bytes"] - 1, _key(each)) for each in rows
                  if each["source"] == source), key=lambda one: abs(one[0]))
    if not off:
        return {"rows": 0}
    sizes = [abs(error) for error, _ in off]
    return {"rows": len(off), "median": median(sizes), "percentile_90": sizes[math.ceil(0.9 * len(sizes)) - 1],
            "largest": off[-1][0], "largest_row": list(off[-1][1]), "too_low": sum(error < 0 for error, _ in off)}


def in_order(keys: list[Key]) -> list[Key]:
    """The rows in the order in which they are compiled: models of layers that are all alike first, then mixed."""
    def place(key: Key) -> tuple[bool, str]:
        # A digest mixes them, and any number of compiled rows is a sample of all machines and methods.
        return key[0].startswith("gemma-4"), hashlib.sha256(repr(key).encode()).hexdigest()
    return sorted(keys, key=place)


def main(arguments: list[str]) -> int:
    """Rows by formula, or some more by the compiler or by traces."""
    parser = argparse.ArgumentParser()
    asked_for = parser.add_mutually_exclusive_group()
    asked_for.add_argument("--compile", type=int, default=0)
    asked_for.add_argument("--trace", type=int, default=0)
    parser.add_argument("--on", nargs="*", default=MACHINES)
    asked = parser.parse_args(arguments)
    keys = [(model, method, length, name) for name in MACHINES for model in MODELS for method in METHODS
            for length in LENGTHS]
    rows = {_key(old): old for old in earlier().get("rows", [])}
    if not (asked.compile or asked.trace):
        for key in keys:
            formula = row(key, compiled=False)
            compiled = rows.get(key, formula)["source"] == "compiled"
            rows[key] = rows[key] | {"estimated_bytes": formula["estimated_bytes"]} if compiled else formula
    missing = in_order([key for key in keys if key[3] in asked.on and (
        key not in rows or rows[key]["source"] != "compiled")])[:asked.compile]
    missing += [key for key in TRACED if key[3] in asked.on and key not in rows][:asked.trace]
    for key in missing:
        found = row(key, compiled=True)
        # Read again each time: another call may have written meanwhile.
        rows = {_key(old): old for old in earlier().get("rows", [])} | {key: found}
        print(*key, found["fits"], f"{found['peak_bytes'] / 2**30:.2f} GiB, by formula",
              f"{found['estimated_bytes'] / found['peak_bytes']:.3f} of that", flush=True)
        _write([rows[each] for each in (*keys, *TRACED) if each in rows])
    if not missing:
        _write([rows[each] for each in (*keys, *TRACED) if each in rows])
    return 0


def _write(rows: list[dict[str, Any]]) -> None:
    counts = {source: sum(each["source"] == source for each in rows) for source in ("compiled", "traced", "estimated")}
    write_result(packages=("jax", "jaxlib", "libtpu", "jax-cuda12-plugin", "torch", "transformers"),
                 words="[--compile ROWS | --trace ROWS]",
                 values={"rows": rows, "counts": counts, "error": error_of(rows, "compiled"),
                         "traced_error": error_of(rows, "traced"), "methods": METHODS})


def _key(old: dict[str, Any]) -> Key:
    return old["model"], old["method"], old["length"], old["target"]


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
