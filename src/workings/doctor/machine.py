"""Checks of this machine: disk, host memory, a Kaggle session, and which process uses the TPU."""

import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workings.doctor.finding import Finding
from workings.hardware.memory import HostMemory, gib

MIN_FREE = 2 * 2**30
"""Free bytes on the disk that are asked for without a recipe."""
KAGGLE_KEPT_FOLDER = Path("/kaggle/working")
"""The folder that is kept when a Kaggle session ends."""
LOCK_FILE = Path("/tmp/libtpu_lockfile")  # noqa: S108 the place that libtpu itself takes


@dataclass(frozen=True, kw_only=True)
class Needs:
    """What a recipe needs on disk and in memory."""

    checkpoint_bytes: int
    kept: int
    """Number of checkpoints that are kept."""
    weights_bytes: int
    """Bytes of the parameters as they are stored."""
    recipe: str
    """Name of the recipe."""

    @property
    def disk_bytes(self) -> int:
        """Bytes of all checkpoints at one time: one more than are kept, because the oldest is deleted last."""
        return self.checkpoint_bytes * (self.kept + 1)


def check_disk(directory: Path, needs: Needs | None) -> Iterator[Finding]:
    """Check the space for checkpoints in a folder that may not exist yet."""
    existing = next(parent for parent in (directory.absolute(), *directory.absolute().parents) if parent.is_dir())
    free = shutil.disk_usage(existing).free
    needed_bytes = needs.disk_bytes if needs else MIN_FREE
    space_text = f"{gib(free)} free at {existing}"
    if needs:
        space_text += (f"; {needs.recipe} keeps {needs.kept} checkpoints of {gib(needs.checkpoint_bytes)} and writes "
                       f"one next to them: {gib(needed_bytes)}")
    why = "a run whose disk is full stops at its last checkpoint"
    short = free < needed_bytes
    yield Finding(id="space.disk", judgement="problem" if short else "fine", what=space_text, why=why, mend=(
        f"df -h {existing}, then free some; or checkpoint.keep_last=1, or another --out" if short else ""))


def check_host(memory: HostMemory, needs: Needs | None) -> Iterator[Finding]:
    """Check the host's memory against the size of the weights."""
    what = f"{gib(memory.available_bytes)} free of {gib(memory.limit_bytes)} ({memory.limit_source})"
    why = "weights pass through the host's memory tensor by tensor, and a CPU run keeps everything there"
    short = needs is not None and memory.available_bytes < needs.weights_bytes
    if needs:
        what += f"; the weights of {needs.recipe} are {gib(needs.weights_bytes)}"
    yield Finding(id="space.host", judgement="note" if short else "fine", what=what, why=why,
                  mend="free -h, then end what is not needed" if short else "")


def check_kaggle(out: Path) -> Iterator[Finding]:
    """In a Kaggle session, check that runs are written to ``out`` where they are kept, and that there is a token."""
    if not os.environ.get("KAGGLE_KERNEL_RUN_TYPE"):
        return
    if not out.absolute().is_relative_to(KAGGLE_KEPT_FOLDER):
        yield Finding(id="kaggle.output", judgement="problem", what=f"runs would be written to {out}",
                      why=f"only what is in {KAGGLE_KEPT_FOLDER} is kept when the session ends",
                      mend=f"--out {KAGGLE_KEPT_FOLDER}/runs/NAME")
    if "HF_TOKEN" not in os.environ:
        yield Finding(id="kaggle.token", judgement="note", what="HF_TOKEN is not set",
                      why="Kaggle's secrets reach a notebook through kaggle_secrets only; gated models such as Gemma "
                      "need the token in the environment, or the model as an input of the notebook",
                      mend="os.environ['HF_TOKEN'] = kaggle_secrets.UserSecretsClient().get_secret('HF_TOKEN')")


def holders(devices: list[Path]) -> dict[int, str]:
    """Process id -> command of other processes that have one of the device files open, as far as they are visible."""
    device_paths = {str(device) for device in devices}
    names = {}
    for folder in Path("/proc").glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            opened = {str(link.readlink()) for link in (folder / "fd").iterdir()}
            name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:  # it has ended, or belongs to another user
            continue
        if opened & device_paths:
            names[int(folder.name)] = name
    return names


def tpu_devices(root: Path = Path("/")) -> list[Path]:
    """Device files of the TPU's chips."""
    return [*sorted((root / "dev").glob("accel[0-9]*")), *sorted((root / "dev/vfio").glob("[0-9]*"))]


def check_tpu(devices: list[Path]) -> Iterator[Finding]:
    """Check that no other process uses the chips with these device files."""
    why = "a TPU serves one process at a time; a second one waits or dies with an error about its lock file"
    users = holders(devices)
    if users:
        number, name = next(iter(users.items()))
        more = f", and {len(users) - 1} more" if len(users) > 1 else ""
        yield Finding(id="tpu.lock", judgement="problem", why=why, mend=f"kill {number}",
                      what=f"process {number} ({name}) holds the TPU{more}")
    # A killed process leaves the file, and libtpu may refuse to start because of it.
    elif LOCK_FILE.exists():
        yield Finding(id="tpu.lock", judgement="note", why=why, mend=f"rm {LOCK_FILE}",
                      what=f"{LOCK_FILE} was left behind, and no process that can be seen holds the TPU")
    else:
        yield Finding(id="tpu.lock", judgement="fine", why=why, what="no other process holds the TPU")
