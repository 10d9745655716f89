"""Memory that a server of vLLM takes of the device of the run that starts it."""

import os
from collections.abc import Mapping
from dataclasses import replace

from workings.config.recipe import Recipe
from workings.config.training import BYTES_OF_FORMAT
from workings.hardware.device import DeviceFacts
from workings.hardware.memory import gib
from workings.models.shape import ModelShape
from workings.models.weights import parameter_count

CACHE_GIB = "VLLM_CPU_KVCACHE_SPACE"
"""Variable with the GiB of vLLM's cache on a CPU; a run sets it to 1 unless it is set."""
SHARE, USUAL_SHARE = "--gpu-memory-utilization", 0.9
"""Argument with the share of a card that vLLM takes, and its default."""
WEIGHTS, CACHE = "vLLM: weights", "vLLM: cache"


def sampler_parts(recipe: Recipe, shape: ModelShape, device: DeviceFacts) -> dict[str, int]:
    """Bytes by part, by formula; empty without a server, and for one that runs elsewhere already (`sampler.url`)."""
    if recipe.sampler is None or recipe.sampler.url:
        return {}
    weights = BYTES_OF_FORMAT[recipe.precision.compute] * parameter_count(shape)
    if device.platform == "cpu":
        return {WEIGHTS: weights, CACHE: int(float(os.environ.get(CACHE_GIB, "1")) * 2**30)}
    # Its cache takes what the share leaves next to the weights.
    taken = int(_share(recipe.sampler.arguments) * device.memory_limit_bytes)
    return {WEIGHTS: weights, CACHE: max(0, taken - weights)}


def _share(arguments: tuple[str, ...]) -> float:
    words = [word for argument in arguments for word in argument.split("=", 1)]
    return float(words[words.index(SHARE) + 1]) if SHARE in words[:-1] else USUAL_SHARE


def next_to_sampler(device: DeviceFacts, parts: Mapping[str, int]) -> DeviceFacts:
    """The device with what a sampler leaves of it; the device itself without parts."""
    if not parts:
        return device
    taken = sum(parts.values())
    return replace(device, memory_limit_bytes=max(0, device.memory_limit_bytes - taken),
                   memory_limit_source=f"{device.memory_limit_source}, less {gib(taken)} of vLLM")
