"""Which accelerator hardware or driver this machine shows, found without loading any framework.

`device: auto` may only settle for the CPU where there is nothing else, so this looks at device nodes and at the PCI
bus instead of asking a framework that might have been installed without support for the card that is there.
"""

import os
from pathlib import Path

from workings.hardware.memory import host_memory

# Vendor numbers of the PCI bus; classes are VGA controllers, and 3D controllers (cards without a display).
NVIDIA, GOOGLE = "0x10de", "0x1ae0"
DISPLAY_CLASSES = ("0x0300", "0x0302")


def _pci(vendor: str, root: Path) -> list[Path]:
    """PCI devices of a vendor."""
    devices = []
    for device in sorted((root / "sys/bus/pci/devices").glob("*")):
        file = device / "vendor"
        if file.is_file() and file.read_text().strip() == vendor:
            devices.append(device)
    return devices


def _is_display(device: Path) -> bool:
    file = device / "class"
    return file.is_file() and file.read_text().strip()[:6] in DISPLAY_CLASSES


def accelerators(root: Path = Path("/")) -> dict[str, str]:
    """What is there: ``{"gpu": "/dev/nvidia0", "tpu": "/dev/accel0"}``; empty where there is no accelerator.

    Args:
        root: where ``dev``, ``proc`` and ``sys`` hang (tests give a folder).
    """
    present: dict[str, str] = {}
    # `dxg` is the GPU of Windows below WSL, `kfd` AMD's compute driver.
    nodes = [*sorted((root / "dev").glob("nvidia[0-9]*")), *(root / "dev").glob("dxg"), *(root / "dev").glob("kfd")]
    drivers = [path for path in (root / "proc/driver/nvidia/version",) if path.exists()]
    cards = [device for device in _pci(NVIDIA, root) if _is_display(device)]
    for signs in (nodes, drivers, cards):
        if signs:
            present["gpu"] = "/" + str(signs[0].relative_to(root))
            break
    chips = sorted((root / "dev").glob("accel[0-9]*"))
    if not chips and _pci(GOOGLE, root):
        # Any device that is passed through has such a node, hence the look at the vendor before.
        chips = sorted((root / "dev/vfio").glob("[0-9]*"))
    if chips:
        present["tpu"] = "/" + str(chips[0].relative_to(root))
    return present


def cpu_name(root: Path = Path("/")) -> str:
    """The CPU's own name, as the kernel gives it."""
    file = root / "proc/cpuinfo"
    if file.is_file():
        for line in file.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    import platform

    return platform.processor() or platform.machine()


def cpu_features(root: Path = Path("/")) -> str:
    """What decides which machine code runs here: the CPU's name, and where the kernel lists them, its instructions."""
    file = root / "proc/cpuinfo"
    listed = file.read_text().splitlines() if file.is_file() else []
    return "\n".join([cpu_name(root), *sorted({line for line in listed if line.startswith(("flags", "Features"))})])


def cpu_memory(root: Path = Path("/")) -> tuple[int, str]:
    """Bytes that processes may use here, and who says so: the lowest of machine, control group and `ulimit -v`."""
    memory = host_memory(root)
    return memory.limit_bytes, memory.limit_source


def launched() -> str:
    """The variable by which a launcher says that it started several processes, as `NAME=VALUE`; empty without one."""
    for name in ("WORLD_SIZE", "JAX_NUM_PROCESSES"):
        if os.environ.get(name, "1") != "1":
            return f"{name}={os.environ[name]}"
    return ""
