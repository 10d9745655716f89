"""`auto` settles for the CPU only where the machine shows no accelerator; nothing is replaced silently."""

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import pytest

from workings.engines.hardware_probe import accelerators
from workings.engines.jax.device import find_devices
from workings.engines.torch.device import find_device
from workings.errors import DeviceError

PCI = "sys/bus/pci/devices/0000:01:00.0"


def machine(root: Path, files: dict[str, str]) -> Path:
    """A folder that looks like the root of a machine."""
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(("files", "found"), [
    *(({file: ""}, {platform: f"/{file}"}) for file, platform in (
        ("dev/nvidia0", "gpu"), ("proc/driver/nvidia/version", "gpu"), ("dev/dxg", "gpu"), ("dev/accel0", "tpu"))),
    # A card without a driver counts, a chipset of the vendor does not.
    ({f"{PCI}/vendor": "0x10de\n", f"{PCI}/class": "0x030000\n"}, {"gpu": f"/{PCI}"}),
    ({f"{PCI}/vendor": "0x10de\n", f"{PCI}/class": "0x040300\n"}, {}),
    # What is passed through by VFIO counts where a chip of Google's is.
    ({"dev/vfio/0": "", f"{PCI}/vendor": "0x1ae0\n"}, {"tpu": "/dev/vfio/0"}), ({"dev/vfio/0": ""}, {})])
def test_a_device_node_a_driver_or_a_card_is_seen(tmp_path: Path, files: dict[str, str], found: dict[str, str]) -> None:
    assert accelerators(machine(tmp_path, files)) == found


@pytest.mark.parametrize("find", [find_devices, find_device])
def test_auto_on_a_bare_machine_says_why_it_is_the_cpu(find: Callable[..., Any]) -> None:
    found = find("auto", {})
    assert (found.platform, found.reason) == ("cpu", "auto: this machine shows no accelerator")


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="this machine's JAX has an accelerator")
@pytest.mark.parametrize(("asked", "present", "said", "try_next"), [
    ("auto", {"gpu": "/dev/nvidia0"}, "JAX cannot use /dev/nvidia0", "ask for the CPU explicitly: device=cpu"),
    ("tpu", {"gpu": "/dev/nvidia0"}, "this machine shows no TPU", "device=gpu"),
    ("gpu", {}, "this machine shows no GPU", "device=cpu")])
def test_what_is_absent_or_cannot_be_used_is_refused(asked: str, present: dict, said: str, try_next: str) -> None:
    with pytest.raises(DeviceError, match=said) as caught:
        find_devices(asked, present)
    assert caught.value.try_next.endswith(try_next)


def test_a_device_whose_product_is_not_a_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from workings.engines.jax import device

    monkeypatch.setattr(jax.numpy, "matmul", lambda a, b, precision: jax.numpy.full((128, 32), jax.numpy.nan))
    with pytest.raises(DeviceError, match="is off by nan"):
        device.check_kernels(tuple(jax.devices("cpu")[:1]), "fp32")


def test_a_driver_that_hangs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from workings.engines.torch import device

    def hangs(*words: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("nvidia-smi", 60)

    monkeypatch.setattr(device.subprocess, "run", hangs)
    assert device.nvidia_smi() == "absent: Command 'nvidia-smi' timed out after 60 seconds\n"
