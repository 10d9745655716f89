"""Environment variables of XLA for a GPU, set before JAX is imported.

Memory: by default XLA takes three quarters of a GPU. A run takes nearly all; the rest is for driver and libraries.

Kernels: by default XLA takes the kernels that are fastest while it compiles, which may differ from process to process.
Here it chooses without timing, so that a repeated or resumed run has the same bits. On an H200 this costs 5 to 6 % of
the speed and halves the time to the first step (`proof/chip/results/nvidia-h200`).
"""

import os
from collections.abc import Mapping, MutableMapping
from importlib.util import find_spec

from workings.engines.hardware_probe import accelerators

FRACTION = "XLA_PYTHON_CLIENT_MEM_FRACTION"
MEMORY_VARIABLES = (FRACTION, "XLA_CLIENT_MEM_FRACTION", "XLA_PYTHON_CLIENT_PREALLOCATE", "XLA_PYTHON_CLIENT_ALLOCATOR")
"""If the user has set one of these variables, none is set here."""
SHARE, XLA_SHARE = 0.95, 0.75
"""Share of a GPU's memory that a run takes, and that XLA takes by default."""
FLAGS = "XLA_FLAGS"
CHOICES = {"xla_gpu_autotune_level": "0", "xla_gpu_enable_triton_gemm": "false"}
"""Flags of XLA for the choice of kernels. If the user has set one of them, none is set here."""
PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")
"""Packages by which JAX uses a GPU."""


def gpu_share(environment: Mapping[str, str] = os.environ) -> float:
    """Share of a GPU's memory that a JAX run takes with these environment variables."""
    if FRACTION in environment:
        return float(environment[FRACTION])
    return XLA_SHARE if any(name in environment for name in MEMORY_VARIABLES) else SHARE


def same_kernels(flags: str) -> str:
    """The value of ``XLA_FLAGS`` with `CHOICES` added, unless it has one of them."""
    if any(name in flags for name in CHOICES):
        return flags
    return " ".join([*flags.split(), *(f"--{name}={value}" for name, value in CHOICES.items())])


def settle(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the variables, if there is a GPU, and JAX's plugin for it is installed and not switched off."""
    platforms = environment.get("JAX_PLATFORMS", "")
    switched_off = platforms and not {"cuda", "gpu"} & set(platforms.split(","))
    if switched_off or "gpu" not in accelerators() or not any(map(find_spec, PLUGINS)):
        return
    environment[FLAGS] = same_kernels(environment.get(FLAGS, ""))
    if not any(name in environment for name in MEMORY_VARIABLES):
        environment[FRACTION] = str(SHARE)
