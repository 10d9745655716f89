"""`auto` settles for the CPU only where the machine shows no accelerator; nothing is replaced silently."""

import subprocess
from pathlib import Path

import jax
import pytest

from workings.engines.hardware_probe import accelerators, cpu_memory
from workings.engines.jax.device import find_devices
from workings.errors import DeviceError


def machine(root: Path, *files: str, **contents: str) -> Path:
    """A folder that looks like the root of a machine."""
    for name in files:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(contents.get(name, ""))
    return root


@pytest.mark.parametrize(("file", "platform"), [
    ("dev/nvidia0", "gpu"), ("proc/driver/nvidia/version", "gpu"), ("dev/dxg", "gpu"), ("dev/accel0", "tpu"),
])
def test_a_device_node_or_driver_is_seen(tmp_path: Path, file: str, platform: str) -> None:
    assert accelerators(machine(tmp_path, file)) == {platform: f"/{file}"}


def test_a_card_without_driver_is_seen_and_a_chipset_is_not(tmp_path: Path) -> None:
    device = tmp_path / "sys/bus/pci/devices/0000:01:00.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x10de\n")
    (device / "class").write_text("0x040300\n")
    assert accelerators(tmp_path) == {}
    (device / "class").write_text("0x030000\n")
    assert accelerators(tmp_path) == {"gpu": "/sys/bus/pci/devices/0000:01:00.0"}


def test_vfio_counts_only_with_googles_chip(tmp_path: Path) -> None:
    machine(tmp_path, "dev/vfio/0")
    assert accelerators(tmp_path) == {}
    device = tmp_path / "sys/bus/pci/devices/0000:00:05.0"
    device.mkdir(parents=True)
    (device / "vendor").write_text("0x1ae0\n")
    assert accelerators(tmp_path) == {"tpu": "/dev/vfio/0"}


def test_auto_on_a_bare_machine_says_why_it_is_the_cpu() -> None:
    found = find_devices("auto", {})
    assert found.platform == "cpu"
    assert found.reason == "auto: this machine shows no accelerator"


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="this machine's JAX has an accelerator")
def test_hardware_that_cannot_be_used_is_refused() -> None:
    with pytest.raises(DeviceError, match="JAX cannot use /dev/nvidia0") as caught:
        find_devices("auto", {"gpu": "/dev/nvidia0"})
    assert "device=cpu" in caught.value.try_next


@pytest.mark.skipif(jax.default_backend() != "cpu", reason="this machine's JAX has an accelerator")
def test_an_absent_device_names_what_is_there() -> None:
    with pytest.raises(DeviceError, match="this machine shows no TPU") as caught:
        find_devices("tpu", {"gpu": "/dev/nvidia0"})
    assert caught.value.try_next == "device=gpu"
    with pytest.raises(DeviceError) as caught:
        find_devices("cuda", {})
    assert caught.value.try_next == "device=cpu"


def test_memory_of_the_control_group_comes_first(tmp_path: Path) -> None:
    machine(tmp_path, "sys/fs/cgroup/memory.max", "proc/meminfo")
    (tmp_path / "proc/meminfo").write_text("MemTotal:       2048 kB\n")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("max\n")
    assert cpu_memory(tmp_path) == (2048 * 1024, "machine (/proc/meminfo)")
    (tmp_path / "sys/fs/cgroup/memory.max").write_text("1000\n")
    assert cpu_memory(tmp_path)[0] == 1000


def test_a_device_whose_product_is_not_a_number_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from workings.engines.jax import device

    monkeypatch.setattr(jax.numpy, "matmul", lambda a, b, precision: jax.numpy.full((128, 32), jax.numpy.nan))
    with pytest.raises(DeviceError, match="is off by nan"):
        device.check_kernels(tuple(jax.devices("cpu")[:1]), "fp32")


def test_a_driver_that_hangs_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    from workings.engines.torch import device

    def hangs(*words: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("nvidia-smi", 60)

    monkeypatch.setattr(device.shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(device.subprocess, "run", hangs)
    assert device.nvidia_smi() == "absent: nvidia-smi did not answer within 60 s\n"


@pytest.mark.parametrize(("platform", "compute", "said"), [
    ("gpu", "fp32", "TF32"), ("tpu", "fp32", "bf16"), ("gpu", "bf16", ""), ("cpu", "fp32", "")])
def test_float32_that_is_multiplied_in_fewer_bits_is_said(platform: str, compute: str, said: str) -> None:
    from workings.engines.jax.device import coarser_products

    notes = coarser_products(platform, compute)
    assert bool(notes) is bool(said)
    assert all(said in note and "JAX_DEFAULT_MATMUL_PRECISION" in note for note in notes)
