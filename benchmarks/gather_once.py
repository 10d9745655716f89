"""Seconds to write answers with SmolLM2-135M split in two: layers gathered once, or for every token.

    python -m benchmarks.gather_once [--allow-load]

Both ways in turns, on a CPU: with PyTorch in the same two processes with one thread each, with JAX on two simulated
devices of one process, which share its memory. Eight prompts of 24 tokens, 32 new tokens each. Exits with 1 if the
tokens differ, with 3 without a result when others use more than half a core.
"""

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from statistics import median
from typing import Any

from tools.other_load import Load
from tools.result_file import write_result

ROUNDS = 3
PROMPTS = [[(7 * row + place) % 40_000 + 10 for place in range(24)] for row in range(8)]
NEW_TOKENS = 32


Answer = Callable[[int], list[list[int]]]
"""Tokens of the completions, written by devices with so much memory."""


def timed(answer: Answer, device_bytes: int) -> dict[str, Any]:
    """Seconds of both ways in turns, after one call of each, and whether the tokens are equal."""
    memory = {"once": device_bytes, "every token": 0}
    tokens = {way: answer(memory[way]) for way in memory}
    seconds: dict[str, list[float]] = {way: [] for way in memory}
    for _ in range(ROUNDS):
        for way in memory:
            started = time.perf_counter()
            answer(memory[way])
            seconds[way].append(round(time.perf_counter() - started, 2))
    return {"seconds": seconds, "same_tokens": tokens["once"] == tokens["every token"],
            "times_faster": round(median(seconds["every token"]) / median(seconds["once"]), 2)}


def opened(name: str) -> tuple[Any, Any]:
    """The engine with its state."""
    from workings.config.load import load_recipe
    from workings.engines.base import EngineRequest
    from workings.engines.registry import find_engine
    from workings.inputs.resolve import find_shape, find_weights

    loaded = load_recipe("smollm2-135m-cpu", [f"engine={name}", "mesh.fsdp=2", "precision.compute=fp32"])
    folder = find_weights(loaded).folder
    engine: Any = find_engine(name).engine.open(EngineRequest.of(loaded.recipe, find_shape(loaded), weights=folder))
    return engine, engine.load(folder)


def in_torch() -> None:
    """What each process of PyTorch does; the first prints the result as JSON."""
    import torch
    from torch import distributed

    torch.set_num_threads(1)
    engine, state = opened("torch")

    def answer(device_bytes: int) -> list[list[int]]:
        engine.spec = replace(engine.spec, device_bytes=device_bytes)
        return [each.tokens for each in engine.generate(state, PROMPTS, max_new_tokens=NEW_TOKENS, stop_ids=[])]

    found = timed(answer, engine.spec.device_bytes)
    if distributed.get_rank() == 0:
        print(json.dumps(found))
    distributed.barrier()
    distributed.destroy_process_group()


def in_jax() -> None:
    """JAX on two simulated devices of one process; prints the result as JSON."""
    from workings.engines.jax.generate import Generator

    engine, state = opened("jax")
    generators = {memory: Generator(replace(engine.spec, device_bytes=memory))
                  for memory in (engine.spec.device_bytes, 0)}

    def answer(device_bytes: int) -> list[list[int]]:
        return [each.tokens for each in generators[device_bytes].answer(state["params"], PROMPTS, NEW_TOKENS, [])]

    print(json.dumps(timed(answer, engine.spec.device_bytes)))


ENGINES: dict[str, tuple[Callable[[], None], list[str], dict[str, str]]] = {
    "torch": (in_torch, ["torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m"], {}),
    "jax": (in_jax, [], {"XLA_FLAGS": "--xla_force_host_platform_device_count=2"})}
"""What an engine's process does, the module that starts it, and variables of its environment."""


def main() -> int:
    """Start the processes, write the result file, print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allow-load", action="store_true")
    parser.add_argument("--answer", choices=ENGINES, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.answer:
        ENGINES[asked.answer][0]()
        return 0
    load = Load(allow=asked.allow_load)
    values: dict[str, Any] = {"cores_used_by_others": round(load.check(), 2), "quotable": not load.passed_over}
    for name, (_, starter, variables) in ENGINES.items():
        done = subprocess.run([sys.executable, "-m", *starter, "benchmarks.gather_once", "--answer", name],
                              check=True, stdout=subprocess.PIPE, text=True, env=os.environ | variables)
        values[name] = json.loads(done.stdout.splitlines()[-1])
    write_result(packages=["torch", "transformers", "jax", "jaxlib"], values=values)
    print(values)
    return 0 if all(values[name]["same_tokens"] for name in ENGINES) else 1


if __name__ == "__main__":
    sys.exit(main())
