"""Measures the training speed of this machine's CPU in about ten seconds.

The engine takes real steps with rows of the recipe's length, by two models that have only a few of the layers. A
straight line through both times gives the time of all layers. The steps run in a child process, whose memory is free
again before a run begins:

    python -m workings.planning.calibration < REQUEST.json
"""

import json
import sys
from collections.abc import Mapping
from dataclasses import replace
from math import ceil
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
"""Measured updates of each model; the fastest counts, because other programs can only make an update slower."""
LEARNING_RATE = 1e-5
FURTHER_LAYERS = 8
"""The deeper model has at least this many layers more than the other one: an engine loops over so many layers."""
LEAST_OPERATIONS = 2e13
"""Operations of a run below which nothing is measured: about two minutes of two cores."""


def calibrated_throughput(request: EngineRequest, engine: str, batch: BatchShape, supervised: float) -> Throughput:
    """Speed of training on this machine's CPU.

    ``batch``: shape of a typical update; ``supervised``: share of the positions that count in the loss, from 0 to 1.
    Raises `WorkingsError` if the updates cannot be taken.
    """
    asked = {"request": replace(request, objective=CROSS_ENTROPY).to_json(), "engine": engine,
             "rows": batch.rows, "positions": batch.positions, "supervised": supervised}
    answer, _ = ask_child(__name__, asked, "measuring the speed of this machine")
    seconds = {int(layers): float(value) for layers, value in answer.items()}
    update_seconds = batch.accumulation * at_depth(seconds, request.shape.layers)
    return Throughput(
        operations_a_second=step_operations(request, batch) / update_seconds,
        source=f"measured now on this machine, with {batch.all_rows} x {batch.positions} tokens and "
               f"{' and '.join(map(str, sorted(seconds)))} of {request.shape.layers} layers")


def at_depth(seconds: Mapping[int, float], layers: int) -> float:
    """Seconds at a depth, on the straight line through two measured depths; with one depth, the seconds measured."""
    if len(seconds) == 1:
        return next(iter(seconds.values()))
    (few, few_seconds), (more, more_seconds) = sorted(seconds.items())
    return few_seconds + (layers - few) * max(0.0, more_seconds - few_seconds) / (more - few)


def measured_depths(shape: ModelShape) -> tuple[int, ...]:
    """Two depths with whole periods of the pattern of layers; only the model's own depth if it has no such pattern."""
    period = max(1, shape.sliding_pattern, shape.linear_pattern)
    few, more = period, period + ceil(FURTHER_LAYERS / period) * period  # 6 and 18 for a period of 6
    is_irregular = shape.shared_kv_layers or shape.layer_types or not shape.verified
    return (shape.layers,) if is_irregular or shape.layers <= more else (few, more)


def measure(asked: Mapping[str, Any]) -> dict[int, float]:
    """In the child process: seconds of an update with one micro batch, by number of layers."""
    request = EngineRequest.from_json(asked["request"])
    shape, rows, length = request.shape, asked["rows"], asked["positions"]
    supervised = max(1, round(asked["supervised"] * length))
    tokens = np.random.default_rng(0).integers(0, shape.vocab_size, (1, rows, length), dtype=np.int32)
    positions = np.broadcast_to(np.arange(length, dtype=np.int32), tokens.shape)
    mask = (positions >= length - supervised).astype(np.float32)
    batch = Batch(tokens=tokens, targets=(tokens * mask).astype(np.int32), loss_mask=mask,
                  positions=positions.copy(), segment_ids=np.ones_like(tokens)).with_loss_positions(supervised)
    seconds = {}
    for layers in measured_depths(shape):
        engine = find_engine(asked["engine"]).engine.open(replace(request, shape=replace(shape, layers=layers)))
        state, _ = engine.step(engine.init(0), batch, LEARNING_RATE)
        repeats = []
        for _ in range(REPEATS):
            started = perf_counter()
            state, _ = engine.step(state, batch, LEARNING_RATE)
            repeats.append(perf_counter() - started)
        seconds[layers] = min(repeats)
    return seconds


if __name__ == "__main__":
    sys.stdout.write(json.dumps(measure(json.load(sys.stdin))) + "\n")
