"""What XLA reads from the environment about a GPU, settled before JAX is imported: memory, and how it chooses kernels.

Memory: without a word XLA takes three quarters of a card and calls the rest not there. A run that trains has the card
to itself, so it may take nearly all of it; what is left is for the driver's context and the libraries' workspaces.

Kernels: without a word XLA times several kernels while it compiles and takes the fastest, which is not the same one in
every process. The same run is then not the same run again, and a resumed one is not the whole one. So here it chooses
without timing, and leaves products to cuBLAS, which chooses by rule. On an H200 that cost 5 and 6 % of the speed, and
the first step came after half of the time (`proof/chip/results/nvidia-h200`).
"""

import importlib.metadata
import os
from collections.abc import Mapping, MutableMapping

from workings.engines.hardware_probe import accelerators

FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
MEMORY_VARIABLES = (FRACTION, "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_ALLOCATOR")
"""A person who has set one of these has decided; then nothing here is set."""
SHARE, XLA_SHARE = 0.95, 0.75
"""Share of a card that a run takes, and that XLA takes by itself."""
FLAGS = "XLA_FLAGS"
CHOICES = {"xla_gpu_autotune_level": "0", "xla_gpu_enable_triton_gemm": "false"}
"""Flags of XLA by which kernels are chosen. A person who has set one of them has decided; then none is set here."""
PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin")
"""Distributions that let JAX drive a GPU."""


def gpu_share(environment: Mapping[str, str] = os.environ) -> float:
    """Share of a card's memory that a JAX run takes under these variables."""
    if FRACTION in environment:
        return float(environment[FRACTION])
    return XLA_SHARE if any(name in environment for name in MEMORY_VARIABLES) else SHARE


def same_kernels(flags: str) -> str:
    """The value of ``XLA_FLAGS`` with kernels chosen without timing, where it says nothing about that choice."""
    if any(name in flags for name in CHOICES):
        return flags
    return " ".join([*flags.split(), *(f"--{name}={value}" for name, value in CHOICES.items())])


def settle(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set what nobody has decided, where JAX is about to open a GPU.

    That is: an NVIDIA card is there, and JAX's plugin for it is installed and not switched off. On a TPU or a CPU
    nothing is set.
    """
    platforms = environment.get("JAX_PLATFORMS", "")
    switched_off = platforms and not {"cuda", "gpu"} & set(platforms.split(","))
    if switched_off or "gpu" not in accelerators() or not any(map(_installed, PLUGINS)):
        return
    environment[FLAGS] = same_kernels(environment.get(FLAGS, ""))
    if not any(name in environment for name in MEMORY_VARIABLES):
        environment[FRACTION] = str(SHARE)


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
