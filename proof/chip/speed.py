"""Tokens per second, share of the peak rate and time to the first step: both engines next to TRL, taking turns.

The contenders are those of `benchmarks.peers`, in fresh processes, here on the chip: rows of random tokens that all
have one length, AdamW on fp32 weights with bf16 products, clipping at 1. TRL runs in this interpreter where it is
installed, with Liger's kernels where they are.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from proof.chip.model import VOCABULARY, Configuration
from proof.chip.part import XLA_CHOICES, XLA_TIMED, Absent, Chip, Part, require
from proof.chip.places import ROOT
from workings.models.operations import attention_operations, outer_weights_met, weights_met
from workings.models.shape import ModelShape
from workings.models.tokenizer_training import train_tokenizer

CASES = {
    "gemma-3-270m": Configuration(shape="gemma-3-270m", batch=(1, 16, 1024), memory={"loss_chunk": 4096}),
    "gemma-2b at 2,048": Configuration(shape="gemma-2b", batch=(1, 4, 2048),
                                       memory={"remat": "layer", "loss_chunk": 2048}),
    "gemma-2b at 2,048, nothing recomputed": Configuration(shape="gemma-2b", batch=(1, 4, 2048),
                                                           memory={"loss_chunk": 2048}),
}
LARGE = 100 * 2**30
"""Memory from which a card keeps all activations of the last case, for every trainer."""
FLAGS = {"jax": XLA_TIMED} | {f"jax, {choice}": flags for choice, flags in XLA_CHOICES.items()}
"""Flags of XLA under which the JAX engine runs on a GPU."""
CONTENDERS = ("torch", "trl", "jax", "trl with liger", *list(FLAGS)[1:])
TURNS, WARM, STEPS = 2, 3, 20
BACKWARD = 2
"""A product's backward is two products of its size."""


def rows(chip: Chip) -> list[str]:
    """Turns of all contenders on each model; in a trial one turn on one model."""
    names = [name for name in CONTENDERS if ("jax" if name.startswith("jax") else "torch") in chip.engines
             and (chip.platform == "gpu" or name == "jax" or name not in FLAGS)]
    return [f"{case}: {name}, turn {turn + 1}" for case in list(CASES)[:1 if chip.tiny else None]
            for turn in range(1 if chip.tiny else TURNS) for name in names]


def run(row: str, chip: Chip, folder: Path) -> dict[str, Any]:
    """One turn of one contender."""
    case, name = row.split(", turn ")[0].split(": ")
    if name.startswith("trl"):
        require("trl", *(["liger_kernel"] if "liger" in name else []))
    asked = CASES[case]
    if "nothing recomputed" in case and chip.memory_bytes < LARGE:
        raise Absent(f"this chip has {chip.memory_bytes} bytes of memory, and this case is for {LARGE} and more")
    warm, steps = (1, 2) if chip.tiny else (WARM, STEPS)
    place = folder / case.replace(" ", "-").replace(",", "")
    if not (place / "made").is_file():
        make(place, asked, chip, warm, steps)
        (place / "made").touch()
    _, count, length = asked.rows(chip)
    settings: dict[str, Any] = {"warm": warm, "steps": steps, "learning_rate": 1e-5, "rows": count,
                                "max_length": length, "device": chip.platform}
    if name.startswith("trl"):
        command = [sys.executable, str(ROOT / "benchmarks" / "peers" / "trl_sft.py")]
        settings |= {"order": "rows", "options": {
            "bf16": True, "gradient_checkpointing": asked.memory.get("remat") == "layer",
            "use_liger_kernel": "liger" in name}}
    else:
        command = [sys.executable, "-m", "benchmarks.peers.ours"]
        settings |= {"engine": name.split(",")[0], "compute": asked.precision["compute"], "memory": asked.memory}
    done = subprocess.run([*command, str(place), json.dumps(settings)], capture_output=True, text=True, check=False,
                          cwd=ROOT, env=os.environ | {"JAX_ENABLE_COMPILATION_CACHE": "0"}
                          | ({"XLA_FLAGS": FLAGS[name]} if name in FLAGS and chip.platform == "gpu" else {}))
    if done.returncode:
        raise RuntimeError(f"{row}: exit code {done.returncode}\n{done.stdout[-1000:]}\n{done.stderr[-3000:]}")
    return judged(json.loads(done.stdout.splitlines()[-1]), asked, chip) | {"settings": settings}


def judged(found: dict[str, Any], asked: Configuration, chip: Chip) -> dict[str, Any]:
    """With positions a second and, where the catalog knows the chip, the share of its peak rate."""
    _, count, length = asked.rows(chip)
    positions = count * length * found["steps"] / found["seconds"]
    operations = step_operations(asked.model(chip), [length] * count) * found["steps"] / found["seconds"]
    share = {"share_of_peak": operations / chip.peak_flops} if chip.peak_flops else {}
    return found | {"positions_per_second": positions, "operations_per_second": operations} | share


def projection_operations(shape: ModelShape) -> int:
    """Operations of one token's forward through the matrices of all layers."""
    return 2 * weights_met(shape)


def head_operations(shape: ModelShape) -> int:
    """Operations of one token outside of the layers: its logits, and the projection to its per-layer embeddings."""
    return 2 * (shape.vocab_size * shape.width + outer_weights_met(shape))


def step_operations(shape: ModelShape, lengths: Iterable[int], *, square: bool = False, recompute: bool = False) -> int:
    """Operations of one training step over rows of these lengths.

    Args:
        shape: of the model.
        lengths: tokens of each row (padding counts only if the caller counts it).
        square: see `attention_operations`.
        recompute: add the layers' second forward of `memory.remat: layer`. Leave it out for model FLOP utilization,
            which counts what the model needs and not what was recomputed.
    """
    total = 0
    for length in lengths:
        layers = length * projection_operations(shape) + attention_operations(shape, length, square=square)
        # Recomputation repeats the layers only: the head is outside of what `remat` covers.
        total += (1 + BACKWARD) * (layers + length * head_operations(shape)) + recompute * layers
    return total


def make(place: Path, asked: Configuration, chip: Chip, warm: int, steps: int) -> None:
    """Shape, random weights, a tokenizer and rows, as `benchmarks.peers` reads them."""
    (place / "weights").mkdir(parents=True, exist_ok=True)
    shape = asked.model(chip)
    (place / "shape.json").write_text(json.dumps(asdict(shape)))
    # On the CPU: nothing of it may stay on the chip. The format is the one in which all begin.
    engine = asked.open(chip.engines[-1], Chip(platform="cpu", tiny=chip.tiny))
    engine.export(engine.init(0, trainable=False), place / "weights")
    train_tokenizer(["a few words, that there is a tokenizer: 0 1 2 3 4 5 6 7 8 9"], VOCABULARY).save(place / "weights")
    _, count, length = asked.rows(chip)
    draw = np.random.default_rng(0)
    for name, batches in (("warm", warm), ("rows", steps)):
        tokens = draw.integers(8, shape.vocab_size, size=(batches * count, length))
        # The first position is no one's prediction.
        mask = [0] + [1] * (length - 1)
        (place / f"{name}.jsonl").write_text("".join(
            json.dumps({"input_ids": row.tolist(), "completion_mask": mask}) + "\n" for row in tokens))


PART = Part(name="speed", shows="Tokens per second, share of the peak rate and seconds to the first step, in turns.",
            needs=(), alone=lambda row: True, rows=rows, run=run, told=("tokens_per_second", "share_of_peak",
            "seconds_to_first_step", "device_peak_bytes"))
