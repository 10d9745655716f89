"""Does the chip compute what the CPU computes: the same engine, weights and batches on both.

Each side is its own process, the CPU's first: it leaves weights, fresh adapters and a trained model, and the chip's
begins with those. Differences are checked by the tolerances of `workings doctor --engines`, in float32. By default JAX
multiplies float32 on an accelerator in a coarser format, so its rows ask for the full one; one row does not, and
shows the difference.
"""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from proof.chip.part import Chip, Part, require
from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.runs.parity import (
    TOLERANCES,
    ParityCase,
    comparable,
    first_losses,
    gradient_difference,
    gradients,
    make_case,
    max_abs_difference,
    run_steps,
    trained_logits,
)

STEPS = 20
FLASH = ("model.shape.head_dim=128", "data.max_length=128", "data.buckets=[128]")
"""Sizes that every flash kernel takes."""
OTHER_OPTIMIZER = {"jax": "muon", "torch": "adamw8bit"}
AS_SET = "adamw-default-precision"
REFUSED = "refused.json"
HIGHEST = {"JAX_DEFAULT_MATMUL_PRECISION": "highest"}
ADAPTERS = "{rank: 4, alpha: 8, name: %s}"


def settings(engine: str) -> dict[str, tuple[str, ...]]:
    """Rows of an engine: the words of each on top of the recipe."""
    as_set = {AS_SET: ("optimizer.clip_norm=1.0",)} if engine == "jax" else {}
    return {
        "adamw": ("optimizer.clip_norm=1.0",), **as_set, "adafactor": ("optimizer.name=adafactor",),
        OTHER_OPTIMIZER[engine]: (f"optimizer.name={OTHER_OPTIMIZER[engine]}",),
        "lora": ("method=" + ADAPTERS % "lora",), "qlora": ("method=" + ADAPTERS % "qlora",),
        "packed": ("data.packing=first_fit", "batch.accumulation=2"),
        "chunked": ("memory.loss_chunk=32", "memory.remat=layer"), "flash": FLASH}


def rows(chip: Chip) -> list[str]:
    """Every setting with every engine."""
    return [f"{engine} {name}" for engine in chip.engines for name in settings(engine)]


def run(row: str, chip: Chip, folder: Path) -> dict[str, Any]:
    """Both sides, and how far they are apart."""
    engine, name = row.split()
    if engine == "torch" and name == "qlora":
        require("bitsandbytes")
    place = folder / row.replace(" ", "-")
    # Of an earlier try that failed: half a model, or weights of other code.
    shutil.rmtree(place, ignore_errors=True)
    found = []
    for device, environment in (("cpu", {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}), (
            chip.platform, {} if name == AS_SET else HIGHEST)):
        side = place / f"side-{device}-{len(found)}"
        side.mkdir(parents=True, exist_ok=True)
        asked = {"engine": engine, "device": device, "row": name, "first": not found,
                 "steps": 6 if chip.tiny else STEPS}
        done = subprocess.run([sys.executable, "-m", "proof.chip.parity", str(place), str(side), json.dumps(asked)],
                              capture_output=True, text=True, check=False, env=os.environ | environment)
        if (side / REFUSED).is_file():
            raise RequestError(*json.loads((side / REFUSED).read_text(encoding="utf-8")))
        if done.returncode:
            raise RuntimeError(f"{row} on {device}: exit code {done.returncode}\n{done.stderr[-3000:]}")
        found.append(read(side))
    return differences(*found)


def one_side(place: Path, side: Path, asked: dict[str, Any]) -> None:
    """What one engine computes on one device, written into ``side``."""
    engine, words = asked["engine"], settings(asked["engine"])[asked["row"]]
    # Attention of another kind only on the chip: the CPU's plain one is what it has to agree with.
    kind = {"flash": "flash", "chunked": "chunked"}.get(asked["row"], "plain") if not asked["first"] else "plain"
    loaded = comparable(load_recipe("smoke-tiny", words), asked["steps"], on_cpu=True, attention=kind)
    case = make_case(loaded, place, small=False, initializer=engine)
    case = replace(case, request=replace(case.request, device=asked["device"]), _opened=[])
    opened = case.engine(engine)
    # Before the course: the CPU's side makes what the chip's only reads.
    logits, losses = trained_logits(case, engine), first_losses(case, engine)
    _, curve = run_steps(case, opened, case.initial_state(opened, case.request.optimizer), 0, len(case.batches))
    np.savez(side / "numbers.npz", logits=logits, losses=losses, curve=curve, **stored(case, engine),
             **{f"gradient.{name}": x for name, x in gradients(case, engine).items()})


def stored(case: ParityCase, engine: str) -> dict[str, np.ndarray]:
    """Of a PyTorch model in four bits the codes, the scales and the values of its first matrix; else nothing."""
    opened = case.engine(engine)
    modules = getattr(getattr(case.initial_state(opened, case.request.optimizer), "model", None), "modules", tuple)()
    first = next((module for module in modules if hasattr(module, "codes")), None)
    if first is None:
        return {}
    arrays = {"codes": first.codes, "scales": first.absmax, "values": first.full(first.absmax.dtype)}
    return {f"stored.{name}": x.cpu().numpy() for name, x in arrays.items()}


def read(side: Path) -> dict[str, np.ndarray]:
    """What a side wrote."""
    with np.load(side / "numbers.npz", allow_pickle=False) as file:
        return {name: file[name] for name in file.files}


def differences(cpu: dict[str, np.ndarray], chip: dict[str, np.ndarray]) -> dict[str, Any]:
    """Largest differences between the sides, and whether all are within the tolerances."""
    gradient, worst = gradient_difference(*({name.removeprefix("gradient."): x for name, x in side.items()
                                             if name.startswith("gradient.")} for side in (cpu, chip)))
    found = {"logit": max_abs_difference(cpu["logits"], chip["logits"]),
             "loss": max_abs_difference(cpu["losses"], chip["losses"]),
             "curve": max_abs_difference(cpu["curve"], chip["curve"]), "gradient": gradient}
    # Where a model in four bits differs, this tells whether it is stored or multiplied in another way.
    kept = {name: {"differ": int((cpu[name] != chip[name]).sum()), "of": cpu[name].size} for name in cpu
            if name.startswith("stored.")}
    return {"holds": all(value <= TOLERANCES[name] for name, value in found.items()), **found, **kept,
            "worst_gradient": worst, "tolerances": {name: TOLERANCES[name] for name in found},
            "first_loss": float(cpu["curve"][0]), "last_loss": float(cpu["curve"][-1])}


PART = Part(name="parity", shows="Largest differences between the chip and the CPU, of the same engine in float32.",
            needs=(), rows=rows, run=run, told=("logit", "loss", "gradient", "curve"))

if __name__ == "__main__":
    try:
        one_side(Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]))
    except RequestError as refused:
        # For the process that asked: what an engine does not do is no failure.
        parts = [refused.given, refused.expected, refused.try_next]
        (Path(sys.argv[2]) / REFUSED).write_text(json.dumps(parts), encoding="utf-8")
