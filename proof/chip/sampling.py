"""How many tokens a second each engine writes, greedily and drawn."""

import time
from pathlib import Path
from typing import Any

import numpy as np

from proof.chip.model import FROZEN, Configuration
from proof.chip.part import Absent, Chip, Part
from workings.engines.base import SamplingEngine

SHAPES = ("gemma-3-270m", "gemma-2b")
PROMPTS, PROMPT, NEW = 64, 128, 256
KINDS = ("greedy", "drawn")


def rows(chip: Chip) -> list[str]:
    """Each shape, greedily and drawn, with each engine; in a trial one shape."""
    return [f"{engine}: {shape}, {kind}" for shape in SHAPES[:1 if chip.tiny else None] for kind in KINDS
            for engine in chip.engines]


def run(row: str, chip: Chip, folder: Path) -> dict[str, Any]:
    """Write twice: the first time compiles, the second counts."""
    engine, (shape, kind) = row.split(": ")[0], row.split(": ")[1].split(", ")
    asked = Configuration(shape=shape, batch=(1, 1, PROMPT), precision=FROZEN)
    prompts, length, new = (4, 8, 4) if chip.tiny else (PROMPTS, PROMPT, NEW)
    opened = asked.open(engine, chip)
    state = opened.init(0, trainable=False)
    drawn = np.random.default_rng(0).integers(1, asked.model(chip).vocab_size, size=(prompts, length)).tolist()
    if kind == "drawn" and not isinstance(opened, SamplingEngine):
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


PART = Part(name="sampling", shows="New tokens a second of each engine, on random weights of published shapes.",
            needs=(), alone=lambda row: True, rows=rows, run=run, told=("tokens_per_second", "first_seconds"))
