"""Step times by our formula next to those that MaxText publishes for TPU v5e and v5p: their order, and how far off.

    python -m benchmarks.published_times

Published: https://github.com/AI-Hypercomputer/maxtext, commit e591f30cbbf2, `src/maxtext/configs/tpu/v5e/README.md` and
`v5p/README.md` (TFLOP/s a chip), with the scripts next to them (batch, recomputation, tensor parallelism) and the
shapes that `global_parameter_scale` represents. Seconds of a step follow from their count of operations, which takes
attention scores whole and nothing computed again. Ours are what `workings plan` would say: computing at 40 % of the
peak, plus what devices send at half of their links' rates. Their slices hold a copy of the model each, ours share one:
the bytes between slices are as many, for two gathers in bfloat16 and one scatter in float32 are one sum in float32.
Nothing was run. TRL and Unsloth publish multiples of other settings, not seconds or tokens per second, so nothing of
theirs can be compared. The same formula gives the device hours of a million tokens. Writes
`benchmarks/results/published_times.json`. Exits with 1 where the order of steps' seconds agrees in less than nine of
ten pairs.
"""

import math
import sys
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median
from typing import Any

from tools.result_file import write_result
from workings.config.load import check_recipe
from workings.engines.base import EngineRequest, MeshShape
from workings.hardware.catalog import Target, targets
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape
from workings.models.shapes import published_shape
from workings.planning.run_time import step_seconds

LENGTH = 2048
MACHINES_TO_RENT = {"t4x2": "fp16", "rtx5090": "bf16", "h200": "bf16", "v5e-8": "bf16", "v5e-256": "bf16"}
"""Target -> format of its products."""
ENOUGH = 0.9
"""Share of pairs whose order must agree."""


@dataclass(frozen=True)
class Published:
    """One row of a table: a model on slices of this many chips."""

    kind: str
    billions: int
    chips: int
    rows: int
    """Of a chip."""
    again: bool
    """Whether layers are computed again in backward."""
    tp: int
    tflops: dict[int, int]
    """Slices -> operations a second of a chip, in 10**12."""


def of_slices(*tflops: int) -> dict[int, int]:
    """For 1, 2, 4, … slices."""
    return {2 ** power: each for power, each in enumerate(tflops)}


TABLES = (
    Published("v5e", 16, 256, 6, True, 1, of_slices(120, 117, 117, 115, 111, 108)),
    Published("v5e", 32, 256, 4, True, 1, of_slices(132, 128, 126, 125, 123, 119)),
    Published("v5e", 64, 256, 2, True, 1, of_slices(118, 112, 110, 108, 105, 99)),
    Published("v5e", 128, 256, 1, False, 16, of_slices(110, 110, 108, 104, 100, 91)),
    Published("v5p", 32, 64, 6, False, 4, of_slices(328, 319)),
    Published("v5p", 64, 64, 3, False, 4, of_slices(323, 309)),
    Published("v5p", 128, 128, 1, False, 8, of_slices(315, 305)),
    Published("v5p", 128, 256, 1, False, 8, of_slices(316, 274)),
    Published("v5p", 256, 512, 1, False, 8, of_slices(308, 289)),
    Published("v5p", 512, 512, 2, True, 8, of_slices(294, 282)),
    Published("v5p", 1024, 1024, 2, True, 16, of_slices(254, 237)),
    Published("v5p", 1024, 2048, 2, True, 16, of_slices(297, 279)))
MACHINES = {"v5e": ("v5e-256", 3.125), "v5p": ("v5p-8", 6.25)}
"""Kind -> a target of its chips, and the data center network's share of a chip in 10**9 bytes per second (Google Cloud
documentation: v5e 6.4 Tbit/s a pod of 256, v5p 50 Gbit/s a chip)."""


def shape_of(billions: int) -> ModelShape:
    """The model of MaxText's `global_parameter_scale`: heads and feed-forward, width and layers doubled in turn."""
    turns, left = divmod(int(math.log2(billions)), 3)
    wide, width = 2 ** (turns + (left > 0)), 2 ** (turns + (left > 1))
    heads = 16 * wide
    return replace(published_shape("llama-3-8b"), layers=16 * 2 ** turns, width=2048 * width, heads=heads,
                   kv_heads=heads, head_dim=128, mlp_width=7168 * wide, vocab_size=32000, context=LENGTH)


def published_seconds(model: Published, tflops: int) -> float:
    """Of a step, from their own count of operations: 6 for every weight that a token meets, and whole scores."""
    shape, tokens = shape_of(model.billions), model.rows * LENGTH
    layer = 4 * shape.width * shape.heads * shape.head_dim + 3 * shape.width * shape.mlp_width
    weights = shape.layers * layer + shape.vocab_size * shape.width
    scores = 2 * 2 * shape.heads * shape.head_dim * shape.layers * tokens * LENGTH
    return (6 * weights * tokens + 3 * scores) / (tflops * 1e12)


def our_seconds(model: Published, slices: int) -> float:
    """Of the same step by our formula."""
    name, network = MACHINES[model.kind]
    recipe = check_recipe({
        "name": "published", "model": {"source": "scratch", "shape": "llama-3-8b"}, "tokenizer": "train",
        "data": {"traces": "addition", "max_length": LENGTH}, "batch": {"micro_batch": model.rows * model.tp},
        "training": {"steps": 1, "learning_rate": 1e-5}, "optimizer": {"name": "adamw"}, "mesh": {"tp": model.tp},
        "precision": {"parameters": "fp32", "compute": "bf16"},
        "memory": {"remat": "layer" if model.again else "none"}}, "a published run")
    devices = model.chips * slices
    target: Target = replace(targets()[name], devices=devices, chips=devices, slices=slices, network_gb_s=network)
    mesh = MeshShape(devices // model.tp, model.tp)
    seconds, _ = step_seconds(EngineRequest.of(recipe, shape_of(model.billions), device="tpu"),
                              BatchShape(1, model.rows * model.tp * mesh.fsdp, LENGTH), target, mesh)
    assert seconds is not None  # both kinds have their rates
    return seconds


def device_hours(name: str, method: str, compute: str) -> float:
    """Of a million tokens of Gemma 2B, 4 rows of 2,048 tokens on each device, nothing computed again."""
    target = targets()[name]
    recipe = check_recipe({
        "name": "cost", "model": {"source": "scratch", "shape": "gemma-2b"}, "tokenizer": "train",
        "data": {"traces": "addition", "max_length": LENGTH}, "batch": {"micro_batch": 4},
        "method": {"name": method} | ({"rank": 16} if method == "lora" else {}),
        "training": {"steps": 1, "learning_rate": 1e-5}, "optimizer": {"name": "adamw"},
        "precision": {"parameters": "fp32" if method == "full" else "bf16", "compute": compute}}, "a cost")
    rows = 4 * target.devices
    seconds, _ = step_seconds(EngineRequest.of(recipe, published_shape("gemma-2b"), device="gpu"),
                              BatchShape(1, rows, LENGTH), target, MeshShape(target.devices, 1))
    assert seconds is not None
    return seconds * target.devices / (rows * LENGTH) * 1e6 / 3600


def agreeing(rows: list[dict[str, Any]], key: str) -> float:
    """Share of pairs that published and ours have in the same order; a tie on one side alone is not."""
    pairs = [(one, other) for one, other in combinations(rows, 2) if one[key]["published"] != other[key]["published"]]
    return sum((one[key]["published"] < other[key]["published"]) == (one[key]["ours"] < other[key]["ours"])
               and one[key]["ours"] != other[key]["ours"] for one, other in pairs) / len(pairs)


def main() -> int:
    """Compare, write, judge."""
    rows: list[dict[str, Any]] = []
    for model in TABLES:
        peak = targets()[MACHINES[model.kind][0]].rates_tflops["bf16"]
        for slices, tflops in model.tflops.items():
            published, ours = published_seconds(model, tflops), our_seconds(model, slices)
            rows.append({"kind": model.kind, "billions": model.billions, "chips_a_slice": model.chips, "slices": slices,
                         "seconds": {"published": published, "ours": ours}, "ratio": ours / published,
                         "share_of_peak": {"published": tflops / peak, "ours": tflops / peak * published / ours}})
            print(model.kind, f"{model.billions}B", f"{slices} x {model.chips}", f"{published:.1f} s published,",
                  f"{ours:.1f} s by formula")
    order = {name: {"seconds": agreeing(some, "seconds"), "share_of_peak": agreeing(some, "share_of_peak")}
             for name, some in {"all": rows, **{kind: [row for row in rows if row["kind"] == kind]
                                                for kind in MACHINES}}.items()}
    ratios = sorted(row["ratio"] for row in rows)
    costs = {f"{name} {method}": device_hours(name, method, compute)
             for name, compute in MACHINES_TO_RENT.items() for method in ("lora", "full")}
    print(costs)
    values = {"rows": rows, "device_hours_of_a_million_tokens": costs, "count": len(rows), "order": order, "ratio": {
        "least": ratios[0], "median": median(ratios), "largest": ratios[-1]}}
    print(order, values["ratio"])
    write_result(values=values)
    return int(order["all"]["seconds"] < ENOUGH)


if __name__ == "__main__":
    sys.exit(main())
