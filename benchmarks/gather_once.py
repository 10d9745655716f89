"""Seconds to write answers with two processes that split SmolLM2-135M: layers gathered once, or for every token.

    python -m benchmarks.gather_once [--allow-load]

Both ways in turns, in the same two processes with one thread each, on a CPU. Eight prompts of 24 tokens, 32 new tokens
each. Exits with 1 if the tokens differ, with 3 without a result when others use more than half a core.
"""

import argparse
import json
import subprocess
import sys
import time
from dataclasses import replace
from statistics import median

from tools.other_load import Load
from tools.result_file import write_result

ROUNDS = 3
PROMPTS = [[(7 * row + place) % 40_000 + 10 for place in range(24)] for row in range(8)]
NEW_TOKENS = 32


def answer() -> None:
    """What each process does; the first prints the result as JSON."""
    import torch
    from torch import distributed

    from workings.config.load import load_recipe
    from workings.engines.base import EngineRequest
    from workings.engines.torch.engine import TorchEngine
    from workings.inputs.resolve import find_shape, find_weights

    torch.set_num_threads(1)
    loaded = load_recipe("smollm2-135m-cpu", ["engine=torch", "mesh.fsdp=2", "precision.compute=fp32"])
    folder = find_weights(loaded).folder
    engine = TorchEngine.open(EngineRequest.of(loaded.recipe, find_shape(loaded), weights=folder))
    state = engine.load(folder)
    memory = {"once": engine.spec.device_bytes, "every token": 0}
    seconds: dict[str, list[float]] = {way: [] for way in memory}
    tokens = {}
    for _ in range(ROUNDS):
        for way, device_bytes in memory.items():
            engine.spec = replace(engine.spec, device_bytes=device_bytes)
            started = time.perf_counter()
            answers = engine.generate(state, PROMPTS, max_new_tokens=NEW_TOKENS, stop_ids=[])
            seconds[way].append(round(time.perf_counter() - started, 2))
            tokens[way] = [each.tokens for each in answers]
    if distributed.get_rank() == 0:
        print(json.dumps({"seconds": seconds, "same_tokens": tokens["once"] == tokens["every token"]}))
    distributed.barrier()
    distributed.destroy_process_group()


def main() -> int:
    """Start the processes, write the result file, print what it holds."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--allow-load", action="store_true")
    parser.add_argument("--answer", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.answer:
        answer()
        return 0
    load = Load(allow=asked.allow_load)
    others = load.check()
    done = subprocess.run([sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2",
                           "-m", "benchmarks.gather_once", "--answer"], check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(done.stdout.splitlines()[-1])
    once, every = (median(found["seconds"][way]) for way in ("once", "every token"))
    values = {"quotable": not load.passed_over, "cores_used_by_others": round(others, 2), **found,
              "times_faster": round(every / once, 2)}
    write_result(packages=["torch", "transformers"], values=values)
    print(values)
    return 0 if found["same_tokens"] else 1


if __name__ == "__main__":
    sys.exit(main())
