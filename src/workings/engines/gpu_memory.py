"""How much of a GPU's memory XLA takes. It reads this from the environment, so it is settled before JAX is imported.

Without a word XLA takes three quarters of a card and calls the rest not there. A run that trains has the card to
itself, so it may take nearly all of it; what is left is for the driver's context and the libraries' workspaces.
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
PLUGINS = ("jax-cuda12-plugin", "jax-cuda13-plugin")
"""Distributions that let JAX drive a GPU."""


def gpu_share(environment: Mapping[str, str] = os.environ) -> float:
    """Share of a card's memory that a JAX run takes under these variables."""
    if FRACTION in environment:
        return float(environment[FRACTION])
    return XLA_SHARE if any(name in environment for name in MEMORY_VARIABLES) else SHARE


def settle(environment: MutableMapping[str, str] = os.environ) -> None:
    """Set the fraction where JAX is about to open a GPU.

    That is: an NVIDIA card is there, JAX's plugin for it is installed and not switched off, and nobody has decided
    otherwise. On a TPU or a CPU nothing is set.
    """
    decided = any(name in environment for name in MEMORY_VARIABLES)
    platforms = environment.get("JAX_PLATFORMS", "")
    switched_off = platforms and not {"cuda", "gpu"} & set(platforms.split(","))
    if decided or switched_off or "gpu" not in accelerators() or not any(map(_installed, PLUGINS)):
        return
    environment[FRACTION] = str(SHARE)


def _installed(distribution: str) -> bool:
    try:
        importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True
