"""The PyTorch engine's devices: nothing is replaced silently, and what cannot be used says what was found."""

import pytest
import torch

from workings.engines.torch import device
from workings.engines.torch.device import find_device, slow_formats
from workings.errors import DeviceError

without_cuda = pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a working GPU")


@without_cuda
@pytest.mark.parametrize("asked", ["gpu", "cuda", "auto"])
def test_a_card_that_cannot_be_used_is_refused_with_the_finding(asked: str) -> None:
    with pytest.raises(DeviceError, match="PyTorch cannot use /dev/nvidia0 of this machine") as caught:
        find_device(asked, {"gpu": "/dev/nvidia0"})
    assert device.cuda_problem() in caught.value.given
    assert "device=cpu" in caught.value.try_next
    with pytest.raises(DeviceError, match="this machine shows no GPU"):
        find_device("cuda", {})


def test_a_kernel_that_fails_is_a_finding(monkeypatch) -> None:
    """A wheel without this card's architecture imports, sees the card, and dies at the first kernel."""
    def no_image(*args: object, **options: object) -> None:
        raise RuntimeError("CUDA error: no kernel image is available for execution on the device\nmore")

    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch, "ones", no_image)
    with pytest.raises(DeviceError, match="no kernel image is available"):
        find_device("auto", {"gpu": "/dev/nvidia0"})


@pytest.mark.parametrize(("rank", "tried"), [("1", ["cuda:1"]), ("2", [])])
def test_a_process_tries_its_own_card_alone(monkeypatch, rank: str, tried: list[str]) -> None:
    devices, chosen = [], []

    def ones(count: int, device: str) -> torch.Tensor:
        devices.append(device)
        return torch.tensor([1.0] * count)

    monkeypatch.setenv("LOCAL_RANK", rank)
    monkeypatch.setattr(torch.version, "cuda", "12.8")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "set_device", chosen.append)
    monkeypatch.setattr(torch, "ones", ones)
    if tried:
        assert find_device("gpu", {}).device == torch.device("cuda", 1)
        assert chosen == [1]
    else:
        with pytest.raises(DeviceError, match="process 2 has no card: this machine has 2"):
            find_device("gpu", {})
    assert devices == tried


def test_a_tpu_is_the_other_engines() -> None:
    with pytest.raises(DeviceError) as caught:
        find_device("auto", {"tpu": "/dev/accel0"})
    assert "engine=jax" in caught.value.try_next


def test_formats_without_matrix_units_are_said_as_an_estimate() -> None:
    said = slow_formats("Tesla T4", "fp32")
    assert len(said) == 1
    assert "65" not in said[0], "the catalog's rates stay in the catalog"
    assert "about 8 times below its fp16 rate (an estimate" in said[0]
    assert slow_formats("NVIDIA H200", "bf16") == []
    assert slow_formats("an unknown card", "bf16") == []
