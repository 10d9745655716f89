"""Answers to 1,319 questions of GSM8K's lengths on a quickstart-size model: in batches against one by one.

    python -m benchmarks.generation [--engine jax torch] [--allow-load]

Greedy, 64 new tokens at most and no stop token, so that both ways make the same tokens. Compilation is reported apart:
a first call of every shape is made before. One by one is measured on a sample of the questions and multiplied. Exits
with 3 without a result when others use more than half a core (``--allow-load`` marks the result), with 1 where batches
are not 20 times as fast.
"""

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.meter import two_threads

two_threads()

import numpy as np  # noqa: E402

from benchmarks.peers.case import make_case, read_shape, request_for  # noqa: E402
from tools.by_engine import by_engine  # noqa: E402
from tools.other_load import Load  # noqa: E402
from tools.result_file import ROOT, load_average, write_result  # noqa: E402
from workings.engines.registry import find_engine  # noqa: E402

RESULT = ROOT / "benchmarks" / "results" / "generation.json"
ITEMS, NEW, ALONE, GOAL = 1319, 64, 24, 20.0
MEDIAN_LENGTH, SPREAD, LIMITS = 62, 0.38, (20, 260)
"""Of GSM8K's test questions in tokens of a common tokenizer; lengths are drawn log-normal."""


def prompts(vocabulary: int) -> list[list[int]]:
    """Questions of GSM8K's lengths."""
    draw = np.random.default_rng(0)
    lengths = np.clip(np.exp(draw.normal(np.log(MEDIAN_LENGTH), SPREAD, ITEMS)), *LIMITS).astype(int)
    return [draw.integers(8, vocabulary, length).tolist() for length in lengths]


def measure(folder: Path, name: str) -> dict[str, Any]:
    """One engine, in this process."""
    shape = read_shape(folder)
    engine = find_engine(name).engine.open(request_for(shape, {"compute": "fp32"}))
    state, asked = engine.load(folder / "weights"), prompts(shape.vocab_size)
    alone = asked[::ITEMS // ALONE][:ALONE]

    def seconds(work: Any) -> float:
        started = time.perf_counter()
        work()
        return time.perf_counter() - started

    def batched() -> None:
        found = engine.generate(state, asked, max_new_tokens=NEW, stop_ids=[])
        assert all(len(each.tokens) == NEW for each in found)

    def one_by_one() -> None:
        for prompt in alone:
            engine.generate(state, [prompt], max_new_tokens=NEW, stop_ids=[])

    first_batched, first_alone = seconds(batched), seconds(one_by_one)
    together, single = min(seconds(batched) for _ in range(2)), min(seconds(one_by_one) for _ in range(2))
    each = single / len(alone) * ITEMS
    return {"batched_seconds": round(together, 2), "one_by_one_seconds": round(each, 2),
            "one_by_one_measured_items": len(alone), "ratio": round(each / together, 2),
            "compile_seconds_batched": round(max(0.0, first_batched - together), 2),
            "compile_seconds_one_by_one": round(max(0.0, first_alone - single), 2),
            "tokens_per_second_batched": round(ITEMS * NEW / together)}


def main(arguments: list[str]) -> int:
    """Measure in child processes, write the result file, print a line an engine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", nargs="*", default=["jax", "torch"])
    parser.add_argument("--allow-load", action="store_true")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.measure:
        print(json.dumps(measure(Path(asked.measure[0]), asked.measure[1])))
        return 0
    load, first, values = Load(allow=asked.allow_load), load_average(), {}
    with tempfile.TemporaryDirectory() as name:
        facts = make_case(Path(name), "tiny", "short", Path(), 0, 1)
        for engine, found, others in by_engine("benchmarks.generation", Path(name), asked.engine, load):
            values[engine] = found | {"cores_used_by_others": others}
            print(engine, json.dumps(values[engine]))
    write_result(RESULT, what="Seconds to answer 1,319 questions in batches and one by one.", load_before=first,
                 command="python -m benchmarks.generation", packages=["jax", "torch", "transformers"],
                 values={"quotable": not load.passed_over, "items": ITEMS, "new_tokens": NEW, "goal": GOAL,
                         "parameters": facts["parameters"], **values})
    print(f"wrote {RESULT.relative_to(ROOT)}")
    return int(any(found["ratio"] < GOAL for found in values.values() if isinstance(found, dict)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
