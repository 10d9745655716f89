"""Predicted against measured memory of a training step, from 124 million parameters to the largest that fits."""

import statistics
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np

from proof.chip.model import FROZEN, SMALL, Configuration
from proof.chip.part import Absent, Chip, Part
from workings.engines.base import Engine, Inspection
from workings.hardware.memory import resident_bytes
from workings.models.batch import Batch
from workings.models.weights import parameter_count

STEPS = 3
GOAL = 0.05
LONG = {"remat": "layer", "loss_chunk": 2048}
CONFIGURATIONS = {
    "gemma-3-270m, full": Configuration(shape="gemma-3-270m", batch=(1, 8, 1024), memory={"loss_chunk": 2048}),
    "qwen3-0.6b, full": Configuration(shape="qwen3-0.6b", batch=(1, 4, 2048), memory=LONG),
    "gemma-3-1b, full, adafactor, bf16": Configuration(shape="gemma-3-1b", batch=(1, 4, 2048), optimizer="adafactor",
                                                       precision=SMALL, memory=LONG),
    "llama-3.2-1b, full, two micro batches": Configuration(shape="llama-3.2-1b", batch=(2, 2, 2048), memory=LONG),
    "gemma-2b, full": Configuration(shape="gemma-2b", batch=(1, 4, 2048), memory=LONG),
    "gemma-3-4b, lora": Configuration(shape="gemma-3-4b", batch=(1, 4, 2048), method="lora", precision=FROZEN,
                                      memory=LONG),
    "llama-3-8b, qlora": Configuration(shape="llama-3-8b", batch=(1, 4, 2048), method="qlora", precision=FROZEN,
                                       memory=LONG),
}
LARGEST = "the largest that fits"
CANDIDATES = tuple(Configuration(shape=shape, batch=(1, 1, 2048), method=method, precision=FROZEN, memory=LONG)
                   for shape, method in (("gemma-4-31b", "lora"), ("gemma-4-31b", "qlora"), ("gemma-3-12b", "lora"),
                                         ("gemma-7b", "lora"), ("gemma-3-4b", "lora"), ("gemma-2-2b", "lora")))
"""From the largest down."""


def rows(chip: Chip) -> list[str]:
    """Every configuration with every engine; in a trial two of them."""
    names = [*CONFIGURATIONS, LARGEST]
    if chip.tiny:
        names = ["gemma-3-270m, full", LARGEST]
    return [f"{engine}: {name}" for name in names for engine in chip.engines]


def run(row: str, chip: Chip, folder: Path) -> dict[str, Any]:
    """Predict, then take steps and see."""
    engine, name = row.split(": ", 1)
    if name != LARGEST:
        opened, batch, predicted, seconds = predict(CONFIGURATIONS[name], engine, chip)
        return compared(CONFIGURATIONS[name], chip, opened, batch, predicted) | {"compile_seconds": seconds}
    passed_over = {}
    for candidate in CANDIDATES:
        opened, batch, predicted, seconds = predict(candidate, engine, chip)
        if not predicted.refused and 0 < predicted.peak_bytes < opened.describe().memory_limit_bytes:
            return compared(candidate, chip, opened, batch, predicted) | {
                "compile_seconds": seconds, "passed_over": passed_over}
        passed_over[f"{candidate.shape}, {candidate.method}"] = predicted.refused or predicted.peak_bytes
    raise Absent(f"nothing that fits: {passed_over}")


def predict(asked: Configuration, engine: str, chip: Chip) -> tuple[Engine, Batch, Inspection, float]:
    """The opened engine, a batch, what compiler or trace says of the very step, and how long that took."""
    opened, batch, started = asked.open(engine, chip), asked.draw(chip), time.perf_counter()
    return opened, batch, opened.inspect(batch), round(time.perf_counter() - started, 1)


def compared(asked: Configuration, chip: Chip, engine: Engine, batch: Batch, predicted: Inspection) -> dict[str, Any]:
    """Take steps and compare the peak with what was predicted."""
    # A round figure for what no trace sees is not what the allocator counts.
    expected = predicted.peak_bytes - sum(predicted.breakdown[name] for name in predicted.assumed)
    # Compiling for a card tries kernels on it, which the device's own peak counts as well.
    before, used_before, peak_before = resident_bytes(), card_bytes(), engine.memory().peak_bytes
    state = engine.init(0)
    seconds, losses = [], []
    for _ in range(STEPS):
        started = time.perf_counter()
        state, result = engine.step(state, batch, 1e-5)
        seconds.append(time.perf_counter() - started)
        losses.append(result.loss)
    said = engine.memory()
    measured = said.peak_bytes - (before if chip.platform == "cpu" else 0)
    ratio = measured / expected
    holds = {} if chip.platform == "cpu" else {"holds": abs(ratio - 1) <= GOAL and bool(np.isfinite(losses).all())}
    return holds | {
        "predicted_gib": expected / 2**30, "measured_gib": measured / 2**30, "measured_over_predicted": ratio,
        "predicted_by": predicted.source, "measured_by": said.source, "breakdown": dict(predicted.breakdown),
        "assumed": {name: predicted.breakdown[name] for name in predicted.assumed},
        "device_peak_before_bytes": peak_before, "card_used_before_bytes": used_before,
        "card_used_after_bytes": card_bytes(),
        "parameters": parameter_count(asked.model(chip)), "batch": list(asked.rows(chip)), "method": asked.method,
        "shape": asked.shape, "optimizer": asked.optimizer, "precision": asked.precision, "memory": asked.memory,
        "step_seconds": statistics.median(seconds), "first_step_seconds": seconds[0], "losses": losses}


def card_bytes() -> int:
    """What the driver says is used of the first card, contexts and other programs included; 0 without one."""
    try:
        done = subprocess.run(["nvidia-smi", "--query-gpu=memory.used", "--format=csv,noheader,nounits"],
                              capture_output=True, text=True, check=False, timeout=60)
    except OSError:
        return 0
    return int(done.stdout.splitlines()[0]) * 2**20 if done.returncode == 0 else 0


PART = Part(name="memory", shows="Peak memory of a step as compiler or trace predict it, and as the device counted it.",
            needs=(), alone=lambda row: LARGEST in row, rows=rows, run=run, told=("shape", "predicted_gib",
            "measured_gib", "measured_over_predicted"))
