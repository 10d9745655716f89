"""A run that is killed on the chip and resumed, against one that was not; and how far a replay of it is off."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from proof.chip.part import XLA_CHOICES, XLA_TIMED, Chip, Part, ask
from workings.evidence.replay.comparison import MEASURES, line_differences, wrong_steps
from workings.record.layout import CHECKPOINTS, METRICS, PARTIAL_SUFFIX
from workings.record.metrics import TIME_AND_MEMORY
from workings.runs.replay import ReplayRequest, replay_run

FORMATS = {"fp32": (), "bf16 products": ("precision.compute=bf16",),
           "bf16 weights, stochastic": ("precision.parameters=bf16", "precision.compute=bf16",
                                        "precision.rounding=stochastic", "optimizer.name=adafactor")}
STEPS, EVERY = 400, 50
def rows(chip: Chip) -> list[str]:
    """Each number format with each engine, and on a GPU JAX by other choices of kernels; in a trial one format.

    Of itself XLA takes the kernels that were fastest when it compiled, and these differ from run to run.
    """
    names = list(FORMATS)[:1 if chip.tiny else None]
    again = [f"jax: {name}, {choice}" for choice in XLA_CHOICES for name in names
             if chip.platform == "gpu" and "jax" in chip.engines]
    return [*(f"{engine}: {name}" for name in names for engine in chip.engines), *again]


def run(row: str, chip: Chip, folder: Path) -> dict[str, Any]:
    """Train whole, train and kill, resume, compare, replay."""
    engine, rest = row.split(": ")
    name = next(name for name in sorted(FORMATS, key=len, reverse=True) if rest.startswith(name))
    if chip.platform == "gpu":
        # For the children: this process is the row's own.
        os.environ["XLA_FLAGS"] = XLA_CHOICES.get(rest.removeprefix(name).removeprefix(", "), XLA_TIMED)
    steps, every = (40, 5) if chip.tiny else (STEPS, EVERY)
    place = folder / row.replace(": ", "-").replace(" ", "-").replace(",", "")
    words = ["smoke-tiny", f"engine={engine}", f"device={chip.platform}", f"training.steps={steps}",
             "training.warmup_steps=0", f"checkpoint.every_steps={every}", "checkpoint.keep_last=9", "mesh.fsdp=1",
             "evaluation={traces: addition, every_steps: 1000}", *FORMATS[name]]
    whole, killed = place / "whole", place / "killed"
    # Of an earlier try that failed.
    shutil.rmtree(place, ignore_errors=True)
    ask("train", *words, "--out", str(whole))
    at = kill(words, killed)
    ask("train", *words, "--out", str(killed), "--resume")
    lines = [[{key: value for key, value in json.loads(line).items() if key not in TIME_AND_MEMORY}
              for line in (out / METRICS).read_text(encoding="utf-8").splitlines()] for out in (whole, killed)]
    apart = max(abs(one["loss"] - other["loss"]) for one, other in zip(*lines, strict=True))
    files = [sorted((out / CHECKPOINTS).glob("*"))[-1] / "model.safetensors" for out in (whole, killed)]
    same_weights = files[0].read_bytes() == files[1].read_bytes()
    return {"holds": apart == 0 and same_weights, "killed_after_checkpoint": at, "largest_loss_difference": apart,
            "same_lines": lines[0] == lines[1], "same_weights": same_weights, "steps": steps,
            **replayed(whole, steps // 2 // every * every)}


def kill(words: list[str], out: Path) -> str:
    """Begin a run and end it without warning once its second checkpoint is there; that checkpoint's name."""
    child = subprocess.Popen([sys.executable, "-m", "workings", "train", *words, "--out", str(out)],
                             stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    partial = out.with_name(out.name + PARTIAL_SUFFIX)
    found: list[Path] = []
    while child.poll() is None and len(found) < 2:
        time.sleep(0.002)
        found = sorted((partial / CHECKPOINTS).glob("step_*"))
    if child.poll() is None:
        child.kill()
    said = child.communicate()[1]
    if child.returncode != -signal.SIGKILL:
        raise RuntimeError(f"the run ended with {child.returncode} before it could be killed\n{said[-3000:]}")
    return found[-1].name


def replayed(run: Path, start: int) -> dict[str, Any]:
    """Ten steps replayed on the same chip: the verdict, and the largest differences of each measure."""
    values = replay_run(run, ReplayRequest(start=start, steps=10, predictions=0))
    lines = [line_differences(line) for line in values["lines"]]
    return {"replay": "failed" if wrong_steps(values) else "passed", "replay_mode": values["mode"],
            "controls": values["controls"],
            "replay_differences": {measure: max(line[measure] for line in lines) for measure in MEASURES}}


PART = Part(name="resume", shows="A run killed on the chip and resumed, against a whole one, and replayed.",
            needs=(), rows=rows, run=run, told=("largest_loss_difference", "same_weights", "replay",
                                                "replay_differences"))
