"""Tokens per second that each engine writes, greedily and drawn, in how much memory; whether a graph changes them."""

import time
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from proof.chip.model import FROZEN, METHODS, Configuration
from proof.chip.part import Absent, Chip, Part
from workings.config.training import MeshConfig, PrecisionConfig
from workings.engines.base import EngineRequest, GenerationShape, Sampler
from workings.engines.registry import find_engine, find_planning_engine
from workings.errors import RequestError
from workings.hardware.catalog import targets
from workings.models.registry import families

SHAPES = ("gemma-3-270m", "gemma-2b")
PROMPTS, PROMPT, NEW = 64, 128, 256
KINDS = ("greedy", "drawn")
MEMORY = "memory next to the moments"
GRAPH = "by a graph as one by one"
GOAL = 0.05


def rows(chip: Chip) -> list[str]:
    """Each shape, greedily and drawn, with each engine, in a trial one shape; then what concerns PyTorch alone."""
    shapes = SHAPES[:1 if chip.tiny else None]
    names = [f"{engine}: {shape}, {kind}" for shape in shapes for kind in KINDS for engine in chip.engines]
    if "torch" in chip.engines:
        names += [f"torch: {shape}, {MEMORY}" for shape in shapes] + [f"torch: {GRAPH}"]
    return names


def run(row: str, chip: Chip, folder: Path) -> dict[str, Any]:
    """What the row asks for."""
    if GRAPH in row:
        return compare_graphs(chip)
    return compare_memory(row, chip) if MEMORY in row else measure_speed(row, chip)


def compare_graphs(chip: Chip) -> dict[str, Any]:
    """Small models of every family, in two number formats, sampled by a graph and by operations launched one by one.

    Once more with adapters, on weights as they are and in four bits.
    """
    from tests.engines.tiny import tiny_shape
    from workings.engines.torch import decode

    results: dict[str, Any] = {}
    numbers = np.random.default_rng(0)
    prompts = [numbers.integers(0, 61, n).tolist() for n in numbers.integers(1, 9, 16)]
    cases = [(family.name, compute, "full") for family in families() for compute in ("fp32", "bf16")]
    for family, compute, method in [*cases, ("llama", "bf16", "lora"), ("llama", "bf16", "qlora")]:
        case = f"{family}, {compute}, {method}"
        engine = find_engine("torch").engine.open(EngineRequest(
            shape=tiny_shape(family), device=chip.platform, precision=PrecisionConfig(compute=compute),
            mesh=MeshConfig(fsdp=1, tp=1), method=METHODS[method]))
        assert isinstance(engine, Sampler)
        try:
            state = engine.init(0, trainable=False)
        except RequestError as refused:  # a family that the version of transformers here does not have
            results[case] = {"refused": refused.given}
            continue
        draw = partial(engine.sample, state, prompts, max_new_tokens=100, stop_ids=[1], temperature=1.5,
                       seeds=range(len(prompts)))
        with patch.object(decode, "can_replay", lambda spec: False):
            one_by_one = draw()
        try:
            by_graph = draw()
        except RuntimeError as error:  # an operation that a graph cannot hold; the other families are tried
            results[case] = {"same_log_probabilities": False, "error": str(error)[-500:]}
            continue
        results[case] = {
            "same_tokens": [one.tokens for one in by_graph] == [one.tokens for one in one_by_one],
            "same_log_probabilities": by_graph == one_by_one,
            "tokens": sum(len(one.tokens) for one in by_graph)}
    different = [name for name, one in results.items() if not one.get("same_log_probabilities", "refused" in one)]
    return {"holds": not different, "families": results, "different": different}


def compare_memory(row: str, chip: Chip) -> dict[str, Any]:
    """The peak of drawing next to the whole state of a run, as a trace predicts it and as the device counts it."""
    asked = Configuration(shape=row.split(": ")[1].split(", ")[0], batch=(1, 1, PROMPT), precision=FROZEN)
    size = GenerationShape(*((4, 8, 4) if chip.tiny else (PROMPTS, PROMPT, NEW)))
    engine, planner = asked.open("torch", chip), find_planning_engine("torch")
    target = next((target for target in targets().values() if target.kind == chip.kind), None)
    if target is None or planner is None:
        raise Absent(f"no target of the kind {chip.kind!r} to plan for")
    assert isinstance(engine, Sampler)
    predicted = planner.inspect_for(asked.request(chip), {"drawing": size}, target)["drawing"]
    expected = predicted.peak_bytes - sum(predicted.breakdown[name] for name in predicted.assumed)
    state = engine.init(0)
    prompts = np.random.default_rng(0).integers(1, asked.model(chip).vocab_size, size=size[:2]).tolist()
    engine.sample(state, prompts, max_new_tokens=size.new_tokens, stop_ids=(), temperature=1.0,
                  seeds=range(size.prompts))
    ratio = engine.memory().peak_bytes / expected
    # On a CPU nothing counts what a trace counts.
    holds = {} if chip.platform == "cpu" else {"holds": abs(ratio - 1) <= GOAL}
    return holds | {"predicted_gib": expected / 2**30, "measured_over_predicted": ratio,
            "measured_gib": engine.memory().peak_bytes / 2**30, "breakdown": dict(predicted.breakdown)}


def measure_speed(row: str, chip: Chip) -> dict[str, Any]:
    """Write twice: the first time compiles, the second counts."""
    engine, (shape, kind) = row.split(": ")[0], row.split(": ")[1].split(", ")
    asked = Configuration(shape=shape, batch=(1, 1, PROMPT), precision=FROZEN)
    prompts, length, new = (4, 8, 4) if chip.tiny else (PROMPTS, PROMPT, NEW)
    opened = asked.open(engine, chip)
    state = opened.init(0, trainable=False)
    drawn = np.random.default_rng(0).integers(1, asked.model(chip).vocab_size, size=(prompts, length)).tolist()
    if kind == "drawn" and not isinstance(opened, Sampler):
        raise Absent(f"engine {engine} draws nothing")
    seconds, written = [], 0
    for _ in range(2):
        started = time.perf_counter()
        # No token stops: random weights would end at random, and lengths would not compare.
        if kind == "greedy":
            found = opened.generate(state, drawn, max_new_tokens=new, stop_ids=())
        else:
            found = opened.sample(state, drawn, max_new_tokens=new, stop_ids=(), temperature=1.0,
                                  seeds=range(prompts))
        seconds.append(time.perf_counter() - started)
        written = sum(len(one.tokens) for one in found)
    return {"holds": written == prompts * new, "tokens_per_second": written / seconds[1], "tokens": written,
            "prompts": prompts, "prompt_tokens": length, "new_tokens": new, "first_seconds": seconds[0],
            "seconds_again": seconds[1], "peak_bytes": opened.memory().peak_bytes}


PART = Part(name="sampling", shows="New tokens per second of each engine, on random weights of published shapes.",
            needs=(), alone=lambda row: GRAPH not in row and MEMORY not in row, rows=rows, run=run,
            told=("tokens_per_second", "first_seconds", "measured_over_predicted", "different"))
