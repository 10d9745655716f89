"""Facts about this machine and its launcher, without loading any framework: accelerators, CPU, and time limits.

`device: auto` may choose the CPU only if there is no accelerator. A framework cannot tell, because it may have been
installed without support for the accelerator.
"""

import os
from pathlib import Path

from workings.errors import RequestError
from workings.hardware.machine import cpu_model
from workings.hardware.memory import host_memory

# Vendor numbers of the PCI bus; classes are VGA controllers, and 3D controllers (cards without a display).
NVIDIA, GOOGLE = "0x10de", "0x1ae0"
DISPLAY_CLASSES = ("0x0300", "0x0302")


def _pci(vendor: str, root: Path) -> list[Path]:
    """PCI devices of a vendor."""
    return [device for device in sorted((root / "sys/bus/pci/devices").glob("*")) if _text(device / "vendor") == vendor]


def _text(file: Path) -> str:
    return file.read_text().strip() if file.is_file() else ""


def accelerators(root: Path = Path("/")) -> dict[str, str]:
    """Accelerators of this machine, such as ``{"gpu": "/dev/nvidia0"}``; ``root``: above ``dev``, ``proc``, ``sys``."""
    # `dxg` is the GPU of Windows below WSL, `kfd` AMD's compute driver.
    nodes = [*sorted((root / "dev").glob("nvidia[0-9]*")), *(root / "dev").glob("dxg"), *(root / "dev").glob("kfd")]
    drivers = (root / "proc/driver/nvidia").glob("version")
    # A GPU without a driver has no node, but it is on the bus.
    cards = [device for device in _pci(NVIDIA, root) if _text(device / "class")[:6] in DISPLAY_CLASSES]
    chips = sorted((root / "dev").glob("accel[0-9]*"))
    if not chips and _pci(GOOGLE, root):
        # Some machines pass their TPU chips through as VFIO devices, but other vendors' devices may be passed, too.
        chips = sorted((root / "dev/vfio").glob("[0-9]*"))
    signs = {"gpu": [*nodes, *drivers, *cards], "tpu": chips}
    return {platform: f"/{paths[0].relative_to(root)}" for platform, paths in signs.items() if paths}


def cpu_features(root: Path = Path("/")) -> str:
    """The CPU's name, and its instructions if the kernel lists them; these decide which machine code runs here."""
    file = root / "proc/cpuinfo"
    # x86 lists its instructions as `flags`, Arm as `Features`, for every core.
    instructions = {line for line in _text(file).splitlines() if line.startswith(("flags", "Features"))}
    return "\n".join([cpu_model(file), *sorted(instructions)])


def cpu_memory() -> tuple[int, str]:
    """Bytes that processes may use here, and the source of the number (`workings.hardware.memory`)."""
    memory = host_memory()
    return memory.limit_bytes, memory.limit_source


def launched() -> str:
    """The environment variable of a launcher that started several processes, as ``NAME=VALUE``; empty without one."""
    return _first_of("WORLD_SIZE", "JAX_NUM_PROCESSES")


def started_apart() -> str:
    """As `launched`, for processes that their launcher does not connect (Kubeflow, Slurm, Open MPI, MPICH)."""
    return _first_of("PET_NNODES", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def _first_of(*names: str) -> str:
    # `1:1` is a range of nodes for torchrun.
    return next((f"{name}={os.environ[name]}" for name in names if os.environ.get(name, "1") not in ("1", "1:1")), "")


TIMEOUT_ENV = "WORKINGS_PEER_TIMEOUT"
PEER_TIMEOUT = 600.0
"""Seconds after which a process stops waiting for another one. Saving a checkpoint must take less."""


def peer_timeout() -> float:
    """`PEER_TIMEOUT`, or the seconds in the environment variable. Raises `RequestError` if these are no seconds."""
    text = os.environ.get(TIMEOUT_ENV, str(PEER_TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86400:
        raise RequestError(f"{TIMEOUT_ENV} is {text}", "seconds, from 1 to 86400", f"{TIMEOUT_ENV}={PEER_TIMEOUT:.0f}")
    return seconds
