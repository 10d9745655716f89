"""Is everything here, and does a kernel of each engine run on the chip."""

import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from proof.chip.part import Chip, Part, ask_for_values
from proof.chip.places import ROOT


def rows(chip: Chip) -> list[str]:
    """The machine, and each engine."""
    return ["machine", *chip.engines]


def run(row: str, chip: Chip, folder: Path) -> dict[str, Any]:
    """What is here, or what `workings doctor` finds with one engine."""
    if row == "machine":
        return about_machine()
    found = ask_for_values("doctor", "smoke-tiny", f"engine={row}", f"device={chip.platform}", "--out", str(folder),
                           codes=(0, 1))
    bad = [finding["id"] for finding in found["findings"] if finding["judgement"] == "problem"]
    return {"holds": found["problems"] == 0, "problems": found["problems"], "bad": bad, "findings": found["findings"]}


def about_machine() -> dict[str, Any]:
    """Which of the core's packages are missing, and what the driver says."""
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    lacking = []
    for text in project["dependencies"]:
        asked = Requirement(text)
        try:
            if not asked.specifier.contains(version(asked.name), prereleases=True):
                lacking.append(f"{text}, and here is {version(asked.name)}")
        except PackageNotFoundError:
            lacking.append(f"{text}, not installed")
    return {"holds": not lacking, "lacking": lacking, "driver": said("nvidia-smi"), "python": sys.version,
            "kernel": said("uname", "-a")}


def said(*command: str) -> str:
    """What a command prints, or that it is not here."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"absent: {error}"


PART = Part(name="doctor", shows="Whether packages, driver and kernels of each engine are in order on this machine.",
            needs=(), rows=rows, run=run, told=("problems", "bad", "lacking"))
