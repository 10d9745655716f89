"""The main job on the chip: data, two runs, evaluation, comparison, seals; then it is verified."""

import shutil
import time
from pathlib import Path
from typing import Any

from proof.chip.part import Chip, Part, ask_for_values

SHORT = ("training.steps=6", "training.warmup_steps=2", "evaluation.every_steps=6", "checkpoint.every_steps=6")


def run(row: str, chip: Chip, folder: Path) -> dict[str, Any]:
    """The quickstart with one engine."""
    out = folder / row
    # A try that was stopped leaves half of it.
    shutil.rmtree(out, ignore_errors=True)
    started = time.perf_counter()
    values = ask_for_values("quickstart", "--tiny", f"engine={row}", f"device={chip.platform}", "mesh.fsdp=1",
                            *(SHORT if chip.tiny else ()), "--out", str(out))
    seconds = time.perf_counter() - started
    checks = ask_for_values("verify", str(out / "runs"), codes=(0, 1))
    return {"holds": checks["failed"] == 0, "quickstart_seconds": round(seconds, 1),
            "result": values, "verified": checks}


PART = Part(name="quickstart", shows="The quickstart on the chip with each engine, verified.", needs=(),
            rows=lambda chip: list(chip.engines), run=run, told=("quickstart_seconds",))
