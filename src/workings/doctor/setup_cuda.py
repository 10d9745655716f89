"""`doctor --setup cuda`: the commands that install a PyTorch for this card and driver."""

import json
import shlex
import sys
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from workings.doctor.finding import Finding
from workings.doctor.nvidia import WHEEL_PROGRAM, Build, Driver, choose

ENVIRONMENT = Path(".venv-gpu")
"""Virtual environment that the commands make; they write to nothing else."""


@dataclass(frozen=True, kw_only=True)
class Setup:
    """An installation of PyTorch."""

    build: Build
    commands: tuple[tuple[str, ...], ...]
    reasons: tuple[str, ...]
    """Why newer builds are not used."""

    def lines(self) -> list[str]:
        """The commands as lines for a shell."""
        name = f"torch {self.build.torch} for CUDA {self.build.cuda} ({self.build.tag})"
        return [f"# {name}; then use {ENVIRONMENT}/bin/workings", *map(shlex.join, self.commands),
                *(f"# not {reason}" for reason in self.reasons)]

    def to_json(self) -> dict[str, Any]:
        """Keys of `doctor --setup cuda --json`."""
        return {"tag": self.build.tag, "torch": self.build.torch, "cuda": self.build.cuda,
                "commands": list(map(shlex.join, self.commands)), "reasons": list(self.reasons)}


def plan_setup(driver: Driver) -> Setup | Finding:
    """The installation for this machine's cards; or why there is none: no card, no driver, no suitable build."""
    if not driver.cards:
        return Finding(
            id="setup.cuda", judgement="problem", mend="install NVIDIA's driver, then: nvidia-smi",
            what=f"nothing is set up: {driver.failure or 'the driver lists no card'}",
            why="a build for CUDA needs a card with its driver, and a build for the CPU is not what was asked for")
    build, reasons = choose(driver.cards)
    if build is None:
        return Finding(
            id="setup.cuda", judgement="problem", what="nothing is set up: " + "; ".join(reasons),
            why="no stable build of PyTorch holds code for this card and runs with this driver, and a build for the "
            "CPU is not what was asked for", mend="update NVIDIA's driver, then: workings doctor --setup cuda")
    python = str(ENVIRONMENT / "bin" / "python")
    # This package's working copy if it is installed from one, else its name and version.
    package = metadata.distribution("workings")
    direct = package.read_text("direct_url.json")
    address = json.loads(direct)["url"] if direct else ""
    source = address.removeprefix("file://") if address.startswith("file://") else f"workings=={package.version}"
    return Setup(build=build, reasons=reasons, commands=(
        (sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)),
        # This build is in PyTorch's own index. The second command, for everything else, names the version again, so
        # that pip keeps it instead of PyPI's build for another CUDA.
        (python, "-m", "pip", "install", f"torch=={build.torch}", "--index-url", build.index),
        (python, "-m", "pip", "install", f"torch=={build.torch}", f"{source}[torch,hub]"),
        # A wheel without code for the card fails at its first kernel, not when it is imported.
        (python, "-P", str(WHEEL_PROGRAM), "--kernel", "fp32")))
