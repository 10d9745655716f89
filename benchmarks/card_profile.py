"""Where a step's time goes on an NVIDIA card: ``python -m benchmarks.card_profile``.

Three questions, on one card: how long PyTorch's kernels run in one step of Gemma 3 270M and of Gemma 2B (random weights
at the published shapes); how long the kernel of the loss takes for one block of logits next to the products around it;
and in which step, if any, two runs of the same recipe with the JAX engine and with the PyTorch engine differ.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from proof.chip.beside import ROOT, make_findable

from proof.chip.model import Configuration
from proof.chip.part import XLA_CHOICES, XLA_TIMED, Chip
from tools.result_file import write_result
from workings.record import jsonl
from workings.record.layout import METRICS

CASES = {
    "gemma-3-270m": Configuration(shape="gemma-3-270m", batch=(1, 16, 1024), memory={"loss_chunk": 4096}),
    "gemma-2b": Configuration(shape="gemma-2b", batch=(1, 4, 2048), memory={"remat": "layer", "loss_chunk": 2048}),
}
WHAT = ("Where a step's time goes on an NVIDIA card: kernels of one step of the PyTorch engine, the kernel of the "
        "loss, and whether a run is the same run again.")
BLOCK = (4096, 262_144, 640)
"""Positions, vocabulary and width of the block of logits that is timed."""
TWICE = {"jax": ("jax", XLA_TIMED), **{f"jax, {choice}": ("jax", flags) for choice, flags in XLA_CHOICES.items()},
         "jax, deterministic operations": ("jax", f"{XLA_TIMED} --xla_gpu_deterministic_ops=true"),
         "torch": ("torch", "")}
STEPS = 100


def profile(asked: Configuration) -> dict[str, Any]:
    """Seconds of four steps, then milliseconds of each kernel in one more."""
    import torch
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as record

    engine, batch = asked.open("torch", Chip(platform="gpu")), asked.draw(Chip(platform="gpu"))
    state, seconds = engine.init(0), []
    for _ in range(4):
        started = time.perf_counter()
        state, _ = engine.step(state, batch, 1e-5)
        seconds.append(time.perf_counter() - started)
    with record(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as seen:
        engine.step(state, batch, 1e-5)
        torch.cuda.synchronize()
    rows = [row for row in seen.key_averages() if str(row.device_type).endswith("CUDA")]
    rows.sort(key=lambda row: -row.self_device_time_total)
    return {"step_seconds": seconds, "reserved_gib": torch.cuda.max_memory_reserved() / 2**30,
            "kernels_ms": sum(row.self_device_time_total for row in rows) / 1e3,
            "kernels": [{"ms": row.self_device_time_total / 1e3, "times": row.count, "name": row.key[:110]}
                        for row in rows[:20]]}


def loss_block() -> dict[str, float]:
    """Milliseconds of the kernel of the loss, and of the three products around it."""
    import torch
    from triton.testing import do_bench

    from workings.engines.torch.triton.operations import add_product_, block_loss_

    positions, vocabulary, width = BLOCK
    hidden = torch.randn(positions, width, device="cuda").bfloat16()
    head = torch.randn(vocabulary, width, device="cuda").mul(width ** -0.5).bfloat16()
    targets = torch.randint(0, vocabulary, (positions, 1), device="cuda")
    weights, gradient = torch.rand(positions, 1, device="cuda"), torch.zeros(vocabulary, width, device="cuda")
    logits = hidden @ head.t()
    # The kernel overwrites logits with numbers of the same kind, so one block serves all repetitions.
    return {"kernel_ms": do_bench(lambda: block_loss_(logits, targets, weights, 0.0, True)),
            "logits_ms": do_bench(lambda: hidden @ head.t()), "gradient_of_hidden_ms": do_bench(lambda: logits @ head),
            "gradient_of_head_ms": do_bench(lambda: add_product_(gradient, logits, hidden))}


def run_twice(engine: str, flags: str) -> dict[str, Any]:
    """The first step, from 0, at which two runs of one recipe differ, each in its own process, or ``none``."""
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(2):
            out = Path(folder) / str(number)
            subprocess.run([sys.executable, "-m", "workings", "train", "smoke-tiny", f"engine={engine}", "device=gpu",
                            f"training.steps={STEPS}", f"checkpoint.every_steps={STEPS}", "mesh.fsdp=1",
                            "evaluation={traces: none, items: none}", "--out", str(out)], check=True,
                           capture_output=True, env=os.environ | ({"XLA_FLAGS": flags} if flags else {}))
            lines.append([(line["loss"], line["grad_norm"]) for line in jsonl.read(out / METRICS)[0]])
    pairs = list(zip(*lines, strict=True))
    return {"steps": len(pairs), "first_difference": next((i for i, (a, b) in enumerate(pairs) if a != b), "none"),
            "largest_loss_difference": max(abs(a[0] - b[0]) for a, b in pairs)}


def main() -> None:
    """All three; the result is written to ``--out``."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "card_profile.json")
    out = parser.parse_args().out
    make_findable(ROOT / "build" / "chip" / "site")
    write_result(out, what=WHAT, command="python -m benchmarks.card_profile",
                 packages=("torch", "triton", "transformers", "jax"), values={
                     "profile": {name: profile(asked) for name, asked in CASES.items()}, "loss_block": loss_block(),
                     "twice": {name: run_twice(*which) for name, which in TWICE.items()}})


if __name__ == "__main__":
    main()
