"""Which device a request gets. Nothing is ever replaced silently."""

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
from workings.hardware.machine import cpu_model
from workings.hints import SETUP_CUDA

ASK_FOR_CPU = "ask for the CPU explicitly: device=cpu"


@dataclass(frozen=True, kw_only=True)
class Device:
    """The device of this process, and the reason for the choice."""

    platform: str
    device: torch.device
    reason: str


def find_device(asked: str, present: Mapping[str, str] | None = None) -> Device:
    """The device for ``auto|cpu|gpu|cuda``; under ``torchrun`` each process takes the card of its local rank.

    ``auto`` takes the accelerator that is there and settles for the CPU only where the machine shows no accelerator.
    Raises `DeviceError` where the device asked for is absent, or hardware is present that PyTorch cannot use.
    """
    asked = without_alias(asked)
    present = accelerators() if present is None else present
    reason = ("asked for" if asked != "auto" else f"auto: {present['gpu']} is there" if "gpu" in present
              else "auto: this machine shows no accelerator")
    if asked == "auto" and [*present] == ["tpu"]:
        raise DeviceError(f"engine torch cannot use {present['tpu']} of this machine", "an engine that drives a TPU",
                          f"engine=jax, or {ASK_FOR_CPU}")
    # Before anything asks CUDA, which would take memory on a card that this run does not use.
    if asked == "cpu" or (asked == "auto" and not present):
        return Device(platform="cpu", device=torch.device("cpu"), reason=reason)
    card, cards = own_card(), torch.cuda.device_count()
    # Before a kernel runs, and on no other card: the first use of one takes some hundred MiB of it for good.
    if cards and card >= cards:
        raise DeviceError(f"process {card} has no card: this machine has {cards}", "at most one process a card",
                          f"torchrun --nproc-per-node {cards}")
    finding = cuda_problem()
    if finding:
        there = "gpu" in present
        seen = f"PyTorch cannot use {present['gpu']} of this machine" if there else "this machine shows no GPU"
        raise DeviceError(f"{seen} ({finding})", "a machine with a GPU that PyTorch can use",
                          f"{SETUP_CUDA}; or {ASK_FOR_CPU}" if there else "device=cpu")
    # Otherwise libraries that name no card would use card 0 in every process of the machine.
    torch.cuda.set_device(card)
    return Device(platform="gpu", device=torch.device("cuda", card), reason=reason)


def own_card() -> int:
    """Number of this process's card: ``torchrun`` counts the processes of one machine from 0."""
    return int(os.environ.get("LOCAL_RANK", "0"))


def cuda_problem() -> str:
    """Why CUDA cannot be used here, after really running a kernel on this process's card; empty where it can."""
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is a build without CUDA"
    try:
        if not torch.cuda.is_available():
            return "torch.cuda.is_available() is false: no driver, or one too old for CUDA " + str(torch.version.cuda)
        # Wheels for other cards import well and die at the first kernel.
        if float(torch.ones(2, device=f"cuda:{own_card()}").sum()) != 2.0:
            return "the sum of two ones on the card is not 2"
    except RuntimeError as error:
        return first_line(error)
    return ""


def memory_limit(device: torch.device) -> tuple[int, str]:
    """Bytes the device offers, and who says so."""
    if device.type == "cuda":
        return torch.cuda.get_device_properties(device).total_memory, "device (total memory; other programs share it)"
    return cpu_memory()


def device_name(device: torch.device) -> str:
    """The device's own name; for the CPU the kernel's name of it."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else cpu_model()


def versions() -> dict[str, str]:
    """Versions of what computes."""
    return library_versions(("torch", "transformers", "numpy")) | (
        {"cuda": torch.version.cuda} if torch.version.cuda else {})


def slow_formats(kind: str, name: str) -> list[str]:
    """A note about a number format that this GPU computes without matrix units, by the catalog."""
    target = next((row for row in targets().values() if row.platform == "gpu" and row.kind == kind), None)
    if target is None or name not in target.no_matrix_units:
        return []
    # Formats in which this engine multiplies nothing would make the ratio too large.
    rates = {name: rate for name, rate in target.rates_tflops.items() if name not in ("int8", "fp8", "fp4")}
    best = max(rates, key=lambda name: rates[name])
    factor = (f"about {rates[best] / rates[name]:.0f} times below its {best} rate" if name in rates
              else "at a rate that no datasheet names")
    way_out = "; precision.compute=fp16 with engine=torch runs at that rate" if best == "fp16" else ""
    return [f"{kind} has no matrix units for {name}: products run {factor} (an estimate from the datasheet){way_out}"]


def check_kernels(device: torch.device, dtype: str = "fp32") -> dict[str, Any]:
    """`check_products` on a device; products of float16 are added up in float32."""
    number = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[dtype]

    def product(left: np.ndarray, right: np.ndarray, there: torch.device) -> np.ndarray:
        # The factors are rounded already, so float32 and back changes nothing; NumPy's bfloat16 is not PyTorch's.
        a, b = (torch.from_numpy(x.astype(np.float32)).to(number).to(there) for x in (left, right))
        return (multiply(a, b) if number == torch.float16 else a @ b).cpu().double().numpy()

    return check_products([device], dtype, product)


QUERY = ("index", "name", "driver_version", "memory.total", "memory.used", "compute_cap", "pstate",
         "clocks.max.sm", "power.limit", "temperature.gpu")
"""Fields that `nvidia-smi` is asked for. Its table of processes would name other people's programs."""


def environment_files() -> Mapping[str, str]:
    """File name -> text: ``torch_version.txt``, ``nvidia_smi.txt``."""
    # The long form names the compiler and the libraries that do the products.
    lines = [*(f"{name} {number}" for name, number in versions().items()),
             *(line.rstrip() for line in torch.__config__.show().splitlines())]
    return {"torch_version.txt": "\n".join(lines) + "\n", "nvidia_smi.txt": nvidia_smi()}


def nvidia_smi() -> str:
    """The driver's own words about every card, or why it has no words."""
    try:
        done = subprocess.run(["nvidia-smi", f"--query-gpu={','.join(QUERY)}", "--format=csv"], capture_output=True,
                              text=True, check=False, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:  # no driver, or one that hangs: the run can do without
        return f"absent: {error}\n"
    said = done.stdout + done.stderr
    return done.stdout if done.returncode == 0 else f"absent: nvidia-smi ended with {done.returncode}: {said[:500]}\n"
