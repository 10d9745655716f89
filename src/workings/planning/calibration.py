"""Seconds of an update on this machine's CPU, from updates of the same step with few of the model's layers.

The engine's own step is taken by rows of the recipe's length, and a straight line through two depths gives the whole
model's update. A child process does it: it loads the framework, and its memory is gone before a run begins.

    python -m workings.planning.calibration < REQUEST.json
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any

import numpy as np

from workings.engines.base import EngineRequest
from workings.engines.child_process import ask_child
from workings.engines.registry import find_engine
from workings.models.batch import Batch, BatchShape
from workings.models.shape import ModelShape
from workings.objectives.base import CROSS_ENTROPY
from workings.planning.run_time import Throughput, step_operations

REPEATS = 2
"""Measured updates of each depth; the fastest counts, because other programs only make one slower."""
LEARNING_RATE = 1e-5
FURTHER_LAYERS = 8
"""Layers of the deeper model beyond those of the other; an engine loops over these as over all."""
LEAST_OPERATIONS = 2e13
"""Operations of a run below which nothing is measured: about two minutes of two cores."""


def calibrated_throughput(request: EngineRequest, engine: str, batch: BatchShape, supervised: float) -> Throughput:
    """Speed of training on this machine's CPU, measured in about ten seconds.

    ``batch`` is the shape of a typical update, ``supervised`` the share of positions that count in the loss, from 0 to
    1. Raises `WorkingsError` if the updates cannot be taken.
    """
    asked = {"request": replace(request, objective=CROSS_ENTROPY).to_json(), "engine": engine,
             "rows": batch.rows, "positions": batch.positions, "supervised": supervised}
    answer, _ = ask_child(__name__, asked, "measuring the speed of this machine")
    seconds = {int(layers): float(value) for layers, value in answer.items()}
    update = batch.accumulation * at_depth(seconds, request.shape.layers)
    return Throughput(
        operations_a_second=step_operations(request, batch) / update,
        source=f"measured now on this machine, with {batch.all_rows} x {batch.positions} tokens and "
               f"{' and '.join(map(str, sorted(seconds)))} of {request.shape.layers} layers")


def at_depth(seconds: Mapping[int, float], layers: int) -> float:
    """Seconds at a depth, by the straight line through two others; or those of the only one."""
    if len(seconds) == 1:
        return next(iter(seconds.values()))
    (few, fast), (more, slow) = sorted(seconds.items())
    return fast + (layers - few) * max(0.0, slow - fast) / (more - few)


def measured_depths(shape: ModelShape) -> tuple[int, ...]:
    """Two depths of whole periods of the pattern of layers; or the model's own, where no line leads to it."""
    period = max(1, shape.sliding_pattern, shape.linear_pattern)
    few, more = period, period + -(-FURTHER_LAYERS // period) * period
    # Shared keys and mixed layers without a pattern change with the depth.
    alone = shape.shared_kv_layers or shape.layer_types or not shape.verified
    return (shape.layers,) if alone or shape.layers <= more else (few, more)


def measure(asked: Mapping[str, Any]) -> dict[int, float]:
    """Seconds of a micro-batch's update by number of layers, in the child process."""
    request = EngineRequest.from_json(asked["request"])
    shape, rows, length = request.shape, asked["rows"], asked["positions"]
    learned = max(1, round(asked["supervised"] * length))
    draw = np.random.default_rng(0)
    tokens = draw.integers(0, shape.vocab_size, (1, rows, length), dtype=np.int32)
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), tokens.shape)
    mask = (positions >= length - learned).astype(np.float32)
    batch = Batch(tokens=tokens, targets=(tokens * mask).astype(np.int32), loss_mask=mask,
                  positions=positions.copy(), segment_ids=np.ones_like(tokens)).with_loss_positions(learned)
    found = {}
    for layers in measured_depths(shape):
        engine = find_engine(asked["engine"]).engine.open(replace(request, shape=replace(shape, layers=layers)))
        state, _ = engine.step(engine.init(0), batch, LEARNING_RATE)
        taken = []
        for _ in range(REPEATS):
            started = perf_counter()
            state, _ = engine.step(state, batch, LEARNING_RATE)
            taken.append(perf_counter() - started)
        found[layers] = min(taken)
    return found


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(json.load(sys.stdin))) + "\n")
