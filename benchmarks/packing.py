"""Supervised tokens per second of short traces: packed, grouped by length, padded to the longest or to 128.

    python -m benchmarks.packing [--engine jax torch] [--only short-32 …] [--rounds N] [--allow-load]

Two kinds of traces on the quickstart's model, half with their steps and half with the answer alone: sums of two
numbers, and problems of six kinds, those of at most 60 tokens; 32 and 128 rows per update. A child process for each
engine steps through an epoch of the same rows in all ways, taking turns; every shape is compiled before. (Of fewer
steps some ways would hold more long rows, and with them more supervised tokens, than others.) Exits with 3 without a
result when others use more than half a core (``--allow-load`` marks the result as not to be quoted), with 1 where
neither way without padding (packed, grouped) is 3 times as fast as rows padded to 128 and 1.3 times as fast as rows
padded to the longest.
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

from benchmarks.peers.case import (  # noqa: E402
    PROGRAMS,
    batches_by_position,
    batches_of,
    make_case,
    quantiles,
    read_shape,
    request_for,
)
from tools.by_engine import by_engine  # noqa: E402
from tools.other_load import Load  # noqa: E402
from tools.result_file import write_result  # noqa: E402
from workings.config.data import DataConfig  # noqa: E402
from workings.data.batches import fixed_batches  # noqa: E402
from workings.engines.registry import find_engine  # noqa: E402
from workings.models.batch import Batch  # noqa: E402

LENGTH = 128
CASES = {f"{data}-{rows}": (data, rows) for data in ("short", "mixed") for rows in (32, 128)}
"""Kind of traces, by its name in `benchmarks.peers.case.DATA`; rows of an update."""
EPOCH = 1920
"""Rows."""
GOALS = {"padded_to_128": 3.0, "padded_to_longest": 1.3}


def ways(folder: Path, engine: str, rows: int) -> dict[str, list[Batch]]:
    """The same rows as batches; packed ones hold about as many rows (a quarter as many sequences).

    All are told what is known of their shapes (supervised positions, a prefix that all rows share). Grouped rows have
    few lengths where each costs a program, and any on PyTorch.
    """
    common = {"max_length": LENGTH, "rows": rows}
    plain = batches_by_position(folder, common)
    lengths = np.sort(plain._rows.lengths)
    buckets = quantiles(lengths, rows, PROGRAMS if engine == "jax" else len(lengths) // rows)
    to_longest = DataConfig(traces="", max_length=LENGTH, buckets=tuple(range(8, LENGTH + 1)))
    return {
        "packed": batches_of(folder, common | {"rows": rows // 4, "packing": "best_fit"}),
        "packed_first_fit": batches_of(folder, common | {"rows": rows // 4, "packing": "first_fit"}),
        "grouped": batches_of(folder, common | {"buckets": buckets}),
        "padded_to_longest": [plain._bounded(batch) for batch in fixed_batches(plain._rows, rows, to_longest)],
        "padded_to_128": batches_of(folder, common),
    }


def measure(folder: Path, name: str, rows: int, rounds: int) -> dict[str, Any]:
    """All ways on one engine, in this process."""
    engine = find_engine(name).engine.open(request_for(read_shape(folder), {"compute": "fp32", "packing": "best_fit"}))
    state, every = engine.load(folder / "weights"), ways(folder, name, rows)
    for batch in {batch.tokens.shape: batch for batches in every.values() for batch in batches}.values():
        state, _ = engine.step(state, batch, 1e-4)
    speeds: dict[str, list[float]] = {way: [] for way in every}
    for _ in range(rounds):
        for way, batches in every.items():
            started = time.perf_counter()
            for batch in batches:
                state, _ = engine.step(state, batch, 1e-4)
            speeds[way].append(sum(batch.supervised_tokens for batch in batches) / (time.perf_counter() - started))
    return {way: {"tokens_per_second": round(sorted(found)[len(found) // 2], 1), "turns": [round(x, 1) for x in found],
                  "padding_share": round(1 - sum(batch.real_tokens for batch in every[way])
                                         / sum(batch.tokens.size for batch in every[way]), 4)}
            for way, found in speeds.items()}


def measured_case(case: str, asked: argparse.Namespace, load: Load) -> dict[str, Any]:
    """All engines on one kind of traces."""
    data, rows = CASES[case]
    with tempfile.TemporaryDirectory() as name:
        facts = make_case(Path(name), "tiny", data, Path(), 0, EPOCH // rows, rows)
        words = ("--rows", str(rows), "--rounds", str(asked.rounds))
        found: dict[str, Any] = {"data": facts}
        for engine, ways_found, others in by_engine("benchmarks.packing", Path(name), asked.engine, load, words):
            ratios = {f"{ours}_to_{way}": round(ways_found[ours]["tokens_per_second"]
                                                / ways_found[way]["tokens_per_second"], 3)
                      for ours in ("packed", "grouped") for way in GOALS}
            found[engine] = {"ways": ways_found, "ratios": ratios, "cores_used_by_others": others}
            print(case, engine, json.dumps(ratios), flush=True)
    return found


def main(arguments: list[str]) -> int:
    """Measure in child processes, write the result file, print a line a case and engine."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--engine", nargs="*", default=["jax", "torch"])
    parser.add_argument("--only", nargs="*", default=list(CASES), choices=CASES)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--allow-load", action="store_true")
    parser.add_argument("--measure", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--rows", type=int, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.measure:
        print(json.dumps(measure(Path(asked.measure[0]), asked.measure[1], asked.rows, asked.rounds)))
        return 0
    load = Load(allow=asked.allow_load)
    cases = {case: measured_case(case, asked, load) for case in asked.only}
    write_result(packages=["jax", "torch", "transformers"], words=" ".join([*arguments]),
                 values={"quotable": not load.passed_over, "goals": GOALS, "cases": cases})
    return int(any(max(found[engine]["ratios"][f"{ours}_to_{way}"] for ours in ("packed", "grouped")) < goal
                   for found in cases.values() for engine in asked.engine for way, goal in GOALS.items()))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
