"""`doctor --setup cuda`: the PyTorch that suits this card and driver, printed, or installed into `.venv-gpu` only."""

import json
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from workings.doctor.builds import Build, choose
from workings.doctor.finding import Finding
from workings.doctor.gpus import wheel_program
from workings.doctor.nvidia import Driver
from workings.errors import WorkingsError

ENVIRONMENT = Path(".venv-gpu")
"""The one place that `--yes` writes to."""
LOG = ENVIRONMENT / "setup.log"
KERNEL_CHECK = "fp32"

Runner = Callable[[Sequence[str]], "Ran"]


class CannotSetUp(WorkingsError):
    """Error: no installable build would use the GPU; ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        self.finding = finding
        super().__init__("\n".join(finding.lines()))


@dataclass(frozen=True, kw_only=True)
class Ran:
    """A command that was run."""

    returncode: int
    output: str


@dataclass(frozen=True, kw_only=True)
class Setup:
    """A planned or finished installation."""

    attempts: tuple[tuple[Build, tuple[tuple[str, ...], ...]], ...]
    """A build and its commands, in the order in which they are tried."""
    reasons: tuple[str, ...]
    """Why other builds are not among them."""
    installed: Build | None = None

    def lines(self) -> list[str]:
        """The plan as lines of text."""
        lines = []
        for number, (build, commands) in enumerate(self.attempts):
            head = "first" if number == 0 else "only if the kernel fails with that one"
            lines += [f"# {head}: torch {build.torch} for CUDA {build.cuda} ({build.tag})",
                      *[shlex.join(command) for command in commands]]
        lines += [f"# not {reason}" for reason in self.reasons]
        if self.installed is not None:
            lines.append(f"# installed and a kernel ran: torch {self.installed.torch} for CUDA {self.installed.cuda}; "
                         f"use it with {ENVIRONMENT}/bin/workings")
        return lines

    def to_json(self) -> dict[str, Any]:
        """Keys of `doctor --setup cuda --json`."""
        values: dict[str, Any] = {
            "attempts": [{"tag": build.tag, "torch": build.torch, "cuda": build.cuda,
                          "commands": [shlex.join(command) for command in commands]}
                         for build, commands in self.attempts],
            "reasons": list(self.reasons)}
        return values if self.installed is None else values | {"installed": self.installed.tag}


def plan_setup(driver: Driver) -> Setup:
    """Plans the installation for the GPUs of this machine.

    Raises:
        CannotSetUp: there is no card or no driver, or no published build suits both.
    """
    if not driver.cards:
        raise CannotSetUp(Finding(
            id="setup.cuda", judgement="problem", mend="install NVIDIA's driver, then: nvidia-smi",
            what=f"nothing is set up: {driver.failure or 'the driver lists no card'}",
            why="a build for CUDA needs a card with its driver, and a build for the CPU is not what was asked for"))
    choice = choose(driver.cards, driver.cuda)
    # A build for the CPU would install without an error and be mistaken for a success.
    if not choice.builds:
        raise CannotSetUp(Finding(
            id="setup.cuda", judgement="problem", what="nothing is set up: " + "; ".join(choice.reasons),
            why="no stable build of PyTorch holds code for this card and runs with this driver, and a build for the "
            "CPU is not what was asked for", mend="update NVIDIA's driver, then: workings doctor --setup cuda"))
    return Setup(attempts=tuple((build, commands_for(build)) for build in choice.builds), reasons=choice.reasons)


def commands_for(build: Build) -> tuple[tuple[str, ...], ...]:
    """Make the environment, install this build and this package, run a kernel."""
    python = str(ENVIRONMENT / "bin" / "python")
    return (
        # Cleared, so that nothing of a build that failed before is left next to the next one.
        (sys.executable, "-m", "venv", "--clear", str(ENVIRONMENT)),
        # First alone from PyTorch's index, which has this build; then with everything else from PyPI. The same version
        # is named again, so that pip keeps it instead of the build for another CUDA that PyPI has.
        (python, "-m", "pip", "install", f"torch=={build.torch}", "--index-url", build.index),
        (python, "-m", "pip", "install", f"torch=={build.torch}", f"{_own_source()}[torch,hub]"),
        # An import is not proof: a wheel without code for the card fails at its first kernel only.
        (python, "-P", str(wheel_program()), "--kernel", KERNEL_CHECK),
    )


def _own_source() -> str:
    """Source of this package: its working copy if it is installed from one, else its name and version."""
    package = metadata.distribution("workings")
    direct = package.read_text("direct_url.json")
    address = json.loads(direct)["url"] if direct else ""
    return str(address.removeprefix("file://")) if address.startswith("file://") else f"workings=={package.version}"


def perform(setup: Setup, run: Runner, say: Callable[[str], None]) -> Setup:
    """Try the builds in order until a kernel runs on the card; every command and its output go to the log.

    Raises:
        WorkingsError: no kernel ran; the message says what happened with each build.
    """
    failures = []
    record: list[str] = []
    for build, commands in setup.attempts:
        failure = ""
        for command in commands:
            say(f"$ {shlex.join(command)}")
            done = run(command)
            # The log is written anew after each command, so that it is whole even if the next one never ends.
            record += [f"$ {shlex.join(command)}", done.output.rstrip(), f"exit code {done.returncode}", ""]
            if ENVIRONMENT.is_dir():  # the first command makes it anew
                LOG.write_text("\n".join(record), encoding="utf-8")
            if done.returncode:
                last = (done.output.strip().splitlines() or ["no output"])[-1][:300]
                failure = f"{build.tag}: `{shlex.join(command)}` ended with {done.returncode}: {last}"
                break
        if not failure:
            return Setup(attempts=setup.attempts, reasons=setup.reasons, installed=build)
        failures.append(failure)
        say(failure)
    raise WorkingsError("no build of PyTorch ran a kernel on this card:\n" + "\n".join(failures)
                        + f"\nevery command and its output: {LOG}")


def run_command(command: Sequence[str]) -> Ran:
    """Really run one."""
    done = subprocess.run(list(command), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return Ran(returncode=done.returncode, output=done.stdout)
