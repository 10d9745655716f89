"""`doctor --setup cuda`: the PyTorch that suits this card and driver, printed, or installed into `.venv-gpu` only."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

from workings.doctor.finding import Finding
from workings.doctor.nvidia import WHEEL_PROGRAM, Build, Driver, choose
from workings.errors import WorkingsError

ENVIRONMENT = Path(".venv-gpu")
"""The one place that `--yes` writes to."""
LOG = ENVIRONMENT / "setup.log"


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A planned or finished installation."""

    build: Build
    commands: tuple[tuple[str, ...], ...]
    reasons: tuple[str, ...]
    """Why newer builds are not taken."""
    installed: bool = False

    def lines(self) -> list[str]:
        """The plan as lines of text."""
        name = f"torch {self.build.torch} for CUDA {self.build.cuda} ({self.build.tag})"
        lines = [f"# {name}", *map(shlex.join, self.commands), *(f"# not {reason}" for reason in self.reasons)]
        if self.installed:
            lines.append(f"# installed and a kernel ran: {name}; use it with {ENVIRONMENT}/bin/workings")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Keys of `doctor --setup cuda --json`."""
        return {"tag": self.build.tag, "torch": self.build.torch, "cuda": self.build.cuda,
                "commands": list(map(shlex.join, self.commands)), "reasons": list(self.reasons),
                "installed": self.installed}


def plan_setup(driver: Driver) -> Setup | Finding:
    """The installation for the GPUs of this machine, or why it is missing: no card, no driver, or no suitable build."""
    if not driver.cards:
        return Finding(
            id="setup.cuda", judgement="problem", mend="install NVIDIA's driver, then: nvidia-smi",
            what=f"nothing is set up: {driver.failure or 'the driver lists no card'}",
            why="a build for CUDA needs a card with its driver, and a build for the CPU is not what was asked for")
    build, reasons = choose(driver.cards)
    # A build for the CPU would install without an error and be mistaken for a success.
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
        # Cleared, so that nothing of an earlier build is left.
        (sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)),
        # First alone from PyTorch's index, which has this build; then with everything else from PyPI. The same version
        # is named again, so that pip keeps it instead of the build for another CUDA that PyPI has.
        (python, "-m", "pip", "install", f"torch=={build.torch}", "--index-url", build.index),
        (python, "-m", "pip", "install", f"torch=={build.torch}", f"{source}[torch,hub]"),
        # An import is not proof: a wheel without code for the card fails at its first kernel only.
        (python, "-P", str(WHEEL_PROGRAM), "--kernel", "fp32")))


def perform(setup: Setup, say: Callable[[str], None]) -> Setup:
    """Install and run a kernel on the card; every command and its output go to the log.

    Raises:
        WorkingsError: a command failed; the message has its last line.
    """
    record: list[str] = []
    for command in setup.commands:
        say(f"$ {shlex.join(command)}")
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
        # The log is written anew after each command, so that it is whole even if the next one never ends.
        record += [f"$ {shlex.join(command)}", done.stdout.rstrip(), f"exit code {done.returncode}", ""]
        if ENVIRONMENT.is_dir():  # the first command makes it
            LOG.write_text("\n".join(record), encoding="utf-8")
        if done.returncode:
            last = (done.stdout.strip().splitlines() or ["no output"])[-1][:300]
            raise WorkingsError(f"{setup.build.tag} was not set up: `{shlex.join(command)}` ended with "
                                f"{done.returncode}: {last}\nevery command and its output: {LOG}")
    return replace(setup, installed=True)
