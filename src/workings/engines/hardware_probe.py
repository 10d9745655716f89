"""Detection of accelerator hardware and drivers, without loading any framework.

`device: auto` may choose the CPU only if there is no accelerator. So this reads device nodes and the PCI bus instead of
asking a framework, which may have been installed without support for the accelerator.
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
    """Accelerators of this machine: ``{"gpu": "/dev/nvidia0", "tpu": "/dev/accel0"}``; empty without any.

    ``root``: parent folder of ``dev``, ``proc`` and ``sys`` (tests give another one).
    """
    present: dict[str, str] = {}
    # `dxg` is the GPU of Windows below WSL, `kfd` AMD's compute driver.
    nodes = [*sorted((root / "dev").glob("nvidia[0-9]*")), *(root / "dev").glob("dxg"), *(root / "dev").glob("kfd")]
    drivers = (root / "proc/driver/nvidia").glob("version")
    cards = [device for device in _pci(NVIDIA, root) if _text(device / "class")[:6] in DISPLAY_CLASSES]
    # A device node, else a loaded driver, else a card on the bus without any driver: each is a GPU that `auto` must not
    # overlook.
    if signs := [*nodes, *drivers, *cards]:
        present["gpu"] = "/" + str(signs[0].relative_to(root))
    # Some TPU machines have nodes of the chip's own driver; others pass the chips through as VFIO devices.
    chips = sorted((root / "dev").glob("accel[0-9]*"))
    if not chips and _pci(GOOGLE, root):
        # Any device that is passed through has such a node, hence the look at the vendor before.
        chips = sorted((root / "dev/vfio").glob("[0-9]*"))
    if chips:
        present["tpu"] = "/" + str(chips[0].relative_to(root))
    return present


def cpu_features(root: Path = Path("/")) -> str:
    """Text that decides which machine code runs here: the CPU's name, and its instructions if the kernel lists them."""
    file = root / "proc/cpuinfo"
    # x86 lists its instructions as `flags`, Arm as `Features`, for every core.
    instructions = {line for line in _text(file).splitlines() if line.startswith(("flags", "Features"))}
    return "\n".join([cpu_model(file), *sorted(instructions)])


def cpu_memory() -> tuple[int, str]:
    """Bytes that processes may use here, and their source: the lowest of machine, control group and `ulimit -v`."""
    memory = host_memory()
    return memory.limit_bytes, memory.limit_source


def launched() -> str:
    """The environment variable of a launcher that started several processes, as `NAME=VALUE`; empty without one."""
    return _first_of("WORLD_SIZE", "JAX_NUM_PROCESSES")


def started_apart() -> str:
    """The variable of a launcher that started several processes and does not bring them together, as `NAME=VALUE`.

    Empty without one. The variables: torchrun's own defaults, which Kubeflow's Trainer sets, and the number of tasks of
    Slurm, Open MPI and MPICH.
    """
    return _first_of("PET_NNODES", "SLURM_STEP_NUM_TASKS", "OMPI_COMM_WORLD_SIZE", "PMI_SIZE")


def _first_of(*names: str) -> str:
    # torchrun takes a range of nodes, too.
    return next((f"{name}={os.environ[name]}" for name in names if os.environ.get(name, "1") not in ("1", "1:1")), "")


VARIABLE = "WORKINGS_PEER_TIMEOUT"
PEER_TIMEOUT = 600.0
"""Seconds after which a process that waits for another one gives up. Saving a checkpoint must take less."""


def peer_timeout() -> float:
    """`PEER_TIMEOUT`, or the seconds that the environment variable says. Raises `RequestError` for another text."""
    text = os.environ.get(VARIABLE, str(PEER_TIMEOUT))
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 1 <= seconds <= 86400:
        raise RequestError(f"{VARIABLE} is {text}", "seconds, from 1 to 86400", f"{VARIABLE}={PEER_TIMEOUT:.0f}")
    return seconds
