"""The device that a request gets, and facts about it. No other device replaces one that cannot be used."""

import os
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from workings.engines.hardware_probe import accelerators, cpu_memory
from workings.engines.kernel_check import check_products
from workings.engines.source_digest import library_versions
from workings.engines.torch.half import multiply
from workings.errors import DeviceError, first_line
from workings.hardware.catalog import targets
from workings.hardware.device import without_alias
from workings.hints import SETUP_CUDA

ASK_FOR_CPU = "ask for the CPU explicitly: device=cpu"


@dataclass(frozen=True, kw_only=True)
class Device:
    """The device of this process, and the reason for the choice."""

    platform: str
    device: torch.device
    reason: str


def find_device(asked: str, present: Mapping[str, str] | None = None) -> Device:
    """The device for ``auto|cpu|gpu|cuda``; under ``torchrun`` each process takes the GPU of its local rank.

    ``auto`` means the CPU only if the machine shows no accelerator. ``present``: its accelerators by platform.
    Raises `DeviceError` if the device is absent, or PyTorch cannot use the hardware that is present.
    """
    asked = without_alias(asked)
    present = accelerators() if present is None else present
    if asked == "auto" and [*present] == ["tpu"]:
        raise DeviceError(f"engine torch cannot use {present['tpu']} of this machine", "an engine that drives a TPU",
                          f"engine=jax, or {ASK_FOR_CPU}")
    if asked != "auto":
        reason = "asked for"
    elif "gpu" in present:
        reason = f"auto: {present['gpu']} is there"
    else:
        reason = "auto: this machine shows no accelerator"
    # CUDA is not asked before this: it would take memory on a GPU that the run does not use.
    if asked == "cpu" or (asked == "auto" and not present):
        return Device(platform="cpu", device=torch.device("cpu"), reason=reason)
    card, cards = own_card(), torch.cuda.device_count()
    if cards and card >= cards:
        raise DeviceError(f"process {card} has no card: this machine has {cards}", "at most one process a card",
                          f"torchrun --nproc-per-node {cards}")
    if problem := cuda_problem():
        expected = "a machine with a GPU that PyTorch can use"
        if "gpu" not in present:
            raise DeviceError(f"this machine shows no GPU ({problem})", expected, "device=cpu")
        raise DeviceError(f"PyTorch cannot use {present['gpu']} of this machine ({problem})", expected,
                          f"{SETUP_CUDA}; or {ASK_FOR_CPU}")
    # Libraries that name no GPU would use GPU 0 in every process.
    torch.cuda.set_device(card)
    return Device(platform="gpu", device=torch.device("cuda", card), reason=reason)


def own_card() -> int:
    """Number of this process's GPU: ``torchrun`` counts the processes of one machine from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def cuda_problem() -> str:
    """Why CUDA cannot be used here; empty if a kernel ran on this process's GPU."""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is a build without CUDA"
    try:
        if not torch.cuda.is_available():
            return "torch.cuda.is_available() is false: no driver, or one too old for CUDA " + str(torch.version.cuda)
        # A wheel built for other GPUs fails only at its first kernel.
        if float(torch.ones(2, device=f"cuda:{own_card()}").sum()) != 2.0:
            return "the sum of two ones on the card is not 2"
    except RuntimeError as error:
        return first_line(error)
    return ""


def memory_limit(device: torch.device) -> tuple[int, str]:
    """Bytes of the device's memory, and the source of that number."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory, "device (total memory; other programs share it)"
    return cpu_memory()


def versions() -> dict[str, str]:
    """Versions of the libraries that compute, and of CUDA if PyTorch was built with it."""
    found = library_versions(("torch", "transformers", "numpy"))
    return found | {"cuda": torch.version.cuda} if torch.version.cuda else found


def slow_formats(kind: str, name: str) -> list[str]:
    """Notes about a number format that a GPU of this ``kind`` computes without matrix units, by the catalog."""
    target = next((row for row in targets().values() if row.platform == "gpu" and row.kind == kind), None)
    if target is None or name not in target.no_matrix_units:
        return []
    rates = {key: rate for key, rate in target.rates_tflops.items() if key not in ("int8", "fp8", "fp4")}
    best = max(rates, key=lambda key: rates[key])
    speed = "at a rate that no datasheet names"
    if name in rates:
        speed = f"about {rates[best] / rates[name]:.0f} times below its {best} rate"
    advice = "; precision.compute=fp16 with engine=torch runs at that rate" if best == "fp16" else ""
    return [f"{kind} has no matrix units for {name}: products run {speed} (an estimate from the datasheet){advice}"]


def check_kernels(device: torch.device, dtype: str = "fp32") -> dict[str, Any]:
    """`check_products` on a device; products of float16 are added up in float32."""
    number = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]

    def product(left: np.ndarray, right: np.ndarray, there: torch.device) -> np.ndarray:
        # Through float32, because NumPy's bfloat16 is not PyTorch's; the factors are rounded already.
        a, b = (torch.from_numpy(x.astype(np.float32)).to(number).to(there) for x in (left, right))
        return (multiply(a, b) if number == torch.float16 else a @ b).cpu().double().numpy()

    return check_products([device], dtype, product)


QUERY = ("index", "name", "driver_version", "memory.total", "memory.used", "compute_cap", "pstate",
         "clocks.max.sm", "power.limit", "temperature.gpu")
"""Fields that `nvidia-smi` is asked for. Its full table would name other people's programs."""


def environment_files() -> Mapping[str, str]:
    """File name -> text: ``torch_version.txt``, ``nvidia_smi.txt``."""
    lines = [*(f"{name} {number}" for name, number in versions().items()),
             *(line.rstrip() for line in torch.__config__.show().splitlines())]
    return {"torch_version.txt": "\n".join(lines) + "\n", "nvidia_smi.txt": nvidia_smi()}


def nvidia_smi() -> str:
    """What `nvidia-smi` prints about every GPU, or ``absent:`` and the reason."""
    command = ["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"absent: {error}\n"
    if done.returncode != 0:
        return f"absent: nvidia-smi ended with {done.returncode}: {(done.stdout + done.stderr)[:500]}\n"
    return done.stdout
