"""Seconds as data grows: a row becomes tokens, an epoch is planned, a batch is made, a folder is verified.

    python -m benchmarks.growth [--rows N…] [--train N] [--allow-load]

Traces are made and turned into rows piece by piece, as a stream, so that the measurement itself needs constant memory;
the plan of an epoch and its batches are those of as many rows with the same lengths. Then the time from
`train` to its first step, and the digest that `verify` takes, over files of growing size. Exits with 3 without a result
when others use more than half a core (``--allow-load`` marks the result), with 1 where time a token grows by more than
a quarter, or verification is not linear in bytes within a quarter.
"""

import argparse
import gc
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tools.other_load import Load
from tools.result_file import earlier, measured, write_result
from workings.config.data import DataConfig
from workings.data.batches import Batches, Position
from workings.data.named_sets import make_kind
from workings.data.rows import Row, RowSet, build_rows
from workings.data.traces import completion_text, traces_bytes
from workings.models.chat import ChatTemplate
from workings.models.tokenizer_training import train_tokenizer
from workings.record.digest import file_digest

ROWS = (10_000, 100_000, 1_000_000)
CONFIG = DataConfig(traces="", max_length=64, buckets=(24, 32, 48, 64))
PIECE, BATCHES = 5_000, 200
HASHED_MIB = (16, 64, 256)
SLACK = 1.25


def tokenised(counts: tuple[int, ...]) -> tuple[dict[str, Any], list[Row]]:
    """Microseconds a token to render, encode and prove rows, read as a stream of pieces; and one piece of rows."""
    traces = make_kind("addition", PIECE, 10, 3)[0]
    tokenizer = train_tokenizer(
        (text for trace in traces for text in (trace.prompt, completion_text(trace, "tags"))), 512)
    template, found, done, spent, tokens = ChatTemplate.for_config("gemma", tokenizer), {}, 0, 0.0, 0
    rows: tuple[Row, ...] = build_rows(traces, tokenizer, template, CONFIG).rows  # warms the tokenizer
    for count in counts:
        before, before_tokens = spent, tokens
        start = done
        while done < count:
            started = time.perf_counter()
            rows = build_rows(traces, tokenizer, template, CONFIG).rows
            spent += time.perf_counter() - started
            tokens, done = tokens + sum(len(row.tokens) for row in rows), done + len(rows)
        found[str(count)] = {"microseconds_a_token": round((spent - before) / (tokens - before_tokens) * 1e6, 3),
                             "rows_measured": done - start,
                             "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}
    return found, list(rows)


def batched(count: int, piece: list[Row]) -> dict[str, float]:
    """Planning an epoch of this many rows, and making batches of it."""
    rows = tuple(Row(f"r{i}", piece[i % len(piece)].tokens, piece[i % len(piece)].loss_mask, "") for i in range(count))
    gc.collect()
    gc.freeze()  # a million small objects that the collector would walk through again and again
    batches = Batches(RowSet(rows, (), 0, 64), seed=1, rows_per_micro_batch=32, accumulation=1, data_config=CONFIG)
    started = time.perf_counter()
    batches.most_supervised(batches.shapes()[0][2])  # as a run asks before its first step
    number = batches.batches_in_epoch(0)
    planned = time.perf_counter()
    tokens, place = 0, Position()
    for _ in range(min(BATCHES, number)):
        batch, place = batches.at(place)
        tokens += batch.real_tokens
    ended = time.perf_counter()
    gc.unfreeze()
    total = sum(len(row.tokens) for row in rows)
    return {"plan_seconds": round(planned - started, 3),
            "plan_microseconds_a_token": round((planned - started) / total * 1e6, 4),
            "batch_microseconds_a_token": round((ended - planned) / tokens * 1e6, 4)}


def first_step(folder: Path, count: int) -> dict[str, float]:
    """Seconds from `train` to its first step on a file of this many traces, with nothing kept by an earlier run."""
    traces = make_kind("addition", PIECE, 10, 3)[0]
    path = folder / "traces.jsonl"
    with path.open("wb") as file:
        for start in range(0, count, PIECE):
            file.write(traces_bytes(replace(trace, id=f"t{start + i}") for i, trace in enumerate(traces)))
    texts = (text for trace in traces for text in (trace.prompt, completion_text(trace, "tags")))
    train_tokenizer(texts, 512).save(folder / "tokenizer")
    started, seconds = time.perf_counter(), 0.0
    with subprocess.Popen(
            [sys.executable, "-m", "workings", "train", "smoke-tiny", "--out", str(folder / "cold"), "device=cpu",
             f"data.traces={path}", f"tokenizer={folder / 'tokenizer'}"],
            stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
            env=os.environ | {"WORKINGS_CACHE": str(folder / "cache")}) as process:
        assert process.stderr is not None
        said = []
        for line in process.stderr:
            said.append(line)
            if line.startswith("step 1/"):
                seconds = time.perf_counter() - started
    if process.returncode:
        raise SystemExit("".join(said[-20:]))
    return {"cold_seconds": round(seconds, 2)}


def hashed(folder: Path) -> dict[str, float]:
    """Bytes per second of the digest that `verify` takes of every file."""
    found = {}
    for size in HASHED_MIB:
        path = folder / f"{size}.bin"
        path.write_bytes(np.random.default_rng(size).bytes(size * 2**20))
        best = float("inf")
        for _ in range(2):
            started = time.perf_counter()
            file_digest(path)
            best = min(best, time.perf_counter() - started)
        found[f"{size}_mib_seconds"] = round(best, 4)
        path.unlink()
    return found


def main(arguments: list[str]) -> int:
    """Measure, write the result file, print what it holds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", nargs="*", type=int, default=list(ROWS))
    parser.add_argument("--train", type=int, default=100_000, help="traces for the first step; 0: keep the last result")
    parser.add_argument("--allow-load", action="store_true")
    asked = parser.parse_args(arguments)
    load = Load(allow=asked.allow_load)
    others = load.check()
    read, piece = tokenised(tuple(asked.rows))
    planned = {str(count): batched(count, piece) for count in asked.rows}
    with tempfile.TemporaryDirectory() as name:
        digests = hashed(Path(name))
        steps = ({"traces": asked.train, **first_step(Path(name), asked.train), "measured": measured()} if asked.train
                 else earlier()["first_step"])
    small, large = str(asked.rows[0]), str(asked.rows[-1])
    a_byte = [digests[f"{size}_mib_seconds"] / size for size in (HASHED_MIB[0], HASHED_MIB[-1])]
    growth = {
        "reading": round(read[large]["microseconds_a_token"] / read[small]["microseconds_a_token"], 3),
        **{name: round(planned[large][f"{key}_microseconds_a_token"] / planned[small][f"{key}_microseconds_a_token"], 3)
           for name, key in (("batches", "batch"), ("plan", "plan"))},
        "verify": round(a_byte[1] / a_byte[0], 3)}
    write_result(packages=["numpy", "tokenizers"],
                 values={"quotable": not load.passed_over, "cores_used_by_others": round(others, 2), "rows": asked.rows,
                         "reading": read, "planning": planned, "verify": digests, "growth": growth, "slack": SLACK,
                         "first_step": steps})
    shown = {"reading": read, "planning": planned, "verify": digests, "growth": growth, "first step": steps}
    for key, value in shown.items():
        print(f"{key}: {value}")
    return int(any(growth[name] > SLACK for name in ("reading", "batches", "verify")))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
