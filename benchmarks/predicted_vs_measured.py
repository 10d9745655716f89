"""Peak memory of a training step on a CPU: what the compiler predicts next to what the process really took.

    python -m benchmarks.predicted_vs_measured

Writes `benchmarks/results/predicted_vs_measured.json`. Twelve steps of 1 GiB and more, each in a fresh process of its
own: compile, note the resident set, make the weights, take three steps, and see by how much the peak of the resident
set grew. A prediction is called unsafe where the process took more than it. Exits with 1 where one took so much more
that a plan which is not even called marginal could run out of memory, and with 3 where too little memory is free.
"""

import argparse
import ctypes
import json
import os
import statistics
import subprocess
import sys
from typing import Any

from tools.by_engine import NOTHING_KEPT
from tools.result_file import write_result
from workings.hardware.memory import host_memory, peak_resident_bytes, resident_bytes
from workings.planning.verdict import CPU_MARGINAL_SHARE

GIB = 2**30
MIN_BYTES = GIB
STEPS = 3
ALLOWED = 1 / CPU_MARGINAL_SHARE

ADAMW, ADAFACTOR = {"name": "adamw"}, {"name": "adafactor"}
BF16 = {"parameters": "bf16", "compute": "bf16", "rounding": "stochastic"}
SMALL = {"family": "gemma", "layers": 4, "width": 256, "mlp_width": 1024, "heads": 4, "kv_heads": 1, "head_dim": 64}
WIDE = SMALL | {"layers": 2, "width": 512, "mlp_width": 2048}

CONFIGURATIONS: dict[str, dict[str, Any]] = {
    "embedding, adamw": {"shape": WIDE, "vocabulary": 128_000, "batch": [1, 4, 64], "optimizer": ADAMW},
    "embedding, adamw, accumulation": {"shape": WIDE, "vocabulary": 128_000, "batch": [4, 4, 64], "optimizer": ADAMW},
    "embedding, adamw, clipping": {"shape": WIDE | {"family": "llama"}, "vocabulary": 128_000, "batch": [1, 4, 64],
                                   "optimizer": ADAMW | {"clip_norm": 1.0}},
    "embedding, adafactor": {"shape": WIDE, "vocabulary": 256_000, "batch": [1, 4, 64], "optimizer": ADAFACTOR},
    "embedding, adafactor, bf16": {"shape": WIDE, "vocabulary": 256_000, "batch": [1, 4, 128],
                                   "optimizer": ADAFACTOR, "precision": BF16},
    "logits": {"shape": SMALL, "vocabulary": 64_000, "batch": [1, 16, 256], "optimizer": ADAMW},
    "logits in chunks": {"shape": SMALL, "vocabulary": 64_000, "batch": [1, 32, 256], "optimizer": ADAMW,
                         "memory": {"loss_chunk": 2048}},
    "activations": {"shape": SMALL, "vocabulary": 512, "batch": [1, 128, 128], "optimizer": ADAMW},
    "activations, recomputed layers": {"shape": SMALL | {"layers": 8, "width": 512}, "vocabulary": 512,
                                       "batch": [1, 128, 128], "optimizer": ADAMW, "memory": {"remat": "layer"}},
    "attention scores": {"shape": SMALL | {"heads": 8, "head_dim": 32}, "vocabulary": 512, "batch": [1, 8, 768],
                         "optimizer": ADAMW, "memory": {"attention": "plain"}},
    "attention in chunks, sliding windows": {"shape": SMALL | {"family": "gemma3", "layers": 6}, "vocabulary": 512,
                                             "batch": [1, 8, 1024], "optimizer": ADAMW,
                                             "memory": {"attention": "chunked"}},
    "Gemma 3 270M whole, adamw": {"shape": "gemma-3-270m", "batch": [1, 1, 64], "optimizer": ADAMW},
}


def measure(name: str) -> dict[str, Any]:
    """In a fresh process: one configuration."""
    import numpy as np

    from workings.config.model import ShapeConfig
    from workings.config.training import AdafactorConfig, AdamWConfig, MemoryConfig, PrecisionConfig
    from workings.engines.base import EngineRequest
    from workings.engines.registry import find_engine
    from workings.models.batch import Batch
    from workings.models.shapes import published_shape, shape_from_config

    asked = CONFIGURATIONS[name]
    shape = (published_shape(asked["shape"]) if isinstance(asked["shape"], str) else
             shape_from_config(ShapeConfig(**asked["shape"], context=4096), asked["vocabulary"]))
    optimizer = {"adamw": AdamWConfig, "adafactor": AdafactorConfig}[asked["optimizer"]["name"]](**asked["optimizer"])
    engine = find_engine("jax").engine.open(EngineRequest(
        shape=shape, device="cpu", optimizer=optimizer, precision=PrecisionConfig(**asked.get("precision", {})),
        memory=MemoryConfig(**asked.get("memory", {}))))
    rows = tuple(asked["batch"])
    draw = np.random.default_rng(0)
    tokens = draw.integers(1, shape.vocab_size, size=rows, dtype=np.int32)
    positions = np.broadcast_to(np.arange(rows[2], dtype=np.int32), rows).copy()
    batch = Batch(tokens=tokens, targets=np.roll(tokens, -1, axis=2), loss_mask=np.ones(rows, np.float32),
                  positions=positions, segment_ids=np.ones(rows, np.int32))
    predicted = engine.inspect(batch)
    ctypes.CDLL(None).malloc_trim(0)  # what compiling has freed goes back, so that it is not filled silently
    before, peak_before = resident_bytes(), peak_resident_bytes()
    state = engine.init(0)
    losses = []
    for _ in range(STEPS):
        state, result = engine.step(state, batch, 1e-4)
        losses.append(result.loss)
    peak = peak_resident_bytes()
    return {"predicted_bytes": predicted.peak_bytes, "breakdown": dict(predicted.breakdown),
            "measured_bytes": peak - before, "resident_before_bytes": before, "peak_before_bytes": peak_before,
            "peak_bytes": peak, "measured_over_predicted": round((peak - before) / predicted.peak_bytes, 4),
            "losses": losses, **asked}


def run(name: str) -> dict[str, Any]:
    """One configuration in its own child."""
    done = subprocess.run([sys.executable, "-m", "benchmarks.predicted_vs_measured", "--one", name],
                          capture_output=True, text=True, check=False, env=os.environ | NOTHING_KEPT)
    if done.returncode:
        raise SystemExit(f"{name}: exit code {done.returncode}\n{done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    print(f"{name}: predicted {found['predicted_bytes'] / GIB:.2f} GiB, measured "
          f"{found['measured_bytes'] / GIB:.2f} GiB, ratio {found['measured_over_predicted']:.3f}", flush=True)
    if found["predicted_bytes"] < MIN_BYTES or found["peak_bytes"] <= found["peak_before_bytes"]:
        raise SystemExit(f"{name} is too small to be measured: {found}")
    return found


def main() -> int:
    """Measure all, write, judge."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--one", choices=CONFIGURATIONS)
    asked = parser.parse_args()
    if asked.one:
        print(json.dumps(measure(asked.one)))
        return 0
    if host_memory().available_bytes < 12 * GIB:
        print("not measured: less than 12 GiB of memory are free")
        return 3
    found = {name: run(name) for name in CONFIGURATIONS}
    ratios = sorted(row["measured_over_predicted"] for row in found.values())
    summary = {
        "configurations": len(ratios), "minimum": ratios[0], "median": statistics.median(ratios),
        "maximum": ratios[-1], "unsafe": sum(ratio > 1 for ratio in ratios),
        "unsafe_by_more_than_10_percent": sum(ratio > 1.1 for ratio in ratios),
        "unsafe_beyond_marginal": sum(ratio > ALLOWED for ratio in ratios)}
    write_result(packages=("jax", "jaxlib", "workings"), values={"summary": summary, "configurations": found})
    print(json.dumps(summary))
    return 0 if not summary["unsafe_beyond_marginal"] else 1


if __name__ == "__main__":
    sys.exit(main())
