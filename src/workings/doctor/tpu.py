"""Does another process hold the TPU? It serves one process at a time, and the second one waits or dies unclearly."""

import os
from collections.abc import Iterator
from pathlib import Path

from workings.doctor.finding import Finding

LOCK_FILE = Path("/tmp/libtpu_lockfile")  # noqa: S108 the place that libtpu itself takes


def holders(devices: list[Path], proc: Path = Path("/proc")) -> dict[int, str]:
    """Processes that have one of these device files open: number -> command name. Others' processes may be hidden."""
    device_paths = {str(device) for device in devices}
    names = {}
    for folder in proc.glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            # Each entry of `fd` is a link to what the process has open.
            opened = {str(link.readlink()) for link in (folder / "fd").iterdir()}
            name = (folder / "comm").read_text(encoding="utf-8", errors="replace").strip()
        except OSError:  # it has ended, or belongs to another user
            continue
        if opened & device_paths:
            names[int(folder.name)] = name
    return names


def tpu_devices(root: Path = Path("/")) -> list[Path]:
    """Device files of the chips."""
    return [*sorted((root / "dev").glob("accel[0-9]*")), *sorted((root / "dev/vfio").glob("[0-9]*"))]


def check_tpu(seen: str, devices: list[Path], lock: Path = LOCK_FILE, proc: Path = Path("/proc")) -> Iterator[Finding]:
    """One finding about who holds the chips.

    Args:
        seen: the device file by which the TPU was noticed.
        devices: all device files of the chips.
        lock: libtpu's own lock file.
        proc: where processes are listed.
    """
    why = "a TPU serves one process at a time; a second one waits or dies with an error about its lock file"
    if users := holders(devices, proc):
        number, name = next(iter(users.items()))
        yield Finding(id="tpu.lock", judgement="problem", why=why, mend=f"kill {number}",
                      what=f"process {number} ({name}) holds the TPU at {seen}"
                      + (f", and {len(users) - 1} more" if len(users) > 1 else ""))
    # The file survives a process that was killed, and libtpu may then refuse to start although the chips are free.
    elif lock.exists():
        yield Finding(id="tpu.lock", judgement="note", why=why, mend=f"rm {lock}",
                      what=f"{lock} was left behind, and no process that can be seen holds the TPU")
    else:
        yield Finding(id="tpu.lock", judgement="fine", why=why, what=f"no other process holds the TPU at {seen}")
