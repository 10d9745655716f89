"""A recipe's sampler, a program in place of the engine. The samplers are files of `workings.rollouts.samplers`."""

from abc import abstractmethod
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules
from typing import Any, get_args

from workings.config.section import Section, refused

SAMPLERS = "workings.rollouts.samplers"
"""Each module of this package has its section as ``SAMPLER``. Imported by name, because they import this package."""


class SamplerConfig(Section):
    """The section `sampler`: the keys of a program that samples with adapters that it takes over from the engine."""

    name: str
    """The sampler; first here, so that it comes first in every list of keys."""
    ahead: bool = False
    """Whether it samples the next rollout while the engine takes the last update of the present one. Its completions
    then come from weights that are one update old, never older; the record says which, and each token's ratio is to its
    probability under those weights."""

    def check(self, recipe: Any) -> None:
        """Refuses a recipe without rollouts, and sharded adapters; a part of the recipe's validation."""
        if recipe.algorithm.examples != "prompts":
            raise refused(f"sampler.name: {self.name} with algorithm.name: {recipe.algorithm.name}",
                          "an algorithm that learns from its own completions", "algorithm.name=grpo")
        # `verify` compares the digest of the adapters that sampled with a file of the checkpoint.
        if recipe.checkpoint.sharded:
            raise refused(f"checkpoint.sharded: true with sampler.name: {self.name}",
                          "adapters in one file, which the sampler reads", "checkpoint.sharded=false")

    def memory(self, recipe: Any, shape: Any, device: Any) -> dict[str, int]:
        """Bytes by part that it takes of a device (`DeviceFacts`) next to the run, for a model of this shape."""
        del recipe, shape, device
        return {}

    @abstractmethod
    def open(self, recipe: Any, engine: Any, weights: Path | None) -> Any:
        """The sampler (`workings.engines.base.TaggedSampler`) of a run with this engine and folder of weights.

        Raises `RequestError` for a recipe that it does not support.
        """


def samplers() -> tuple[type[SamplerConfig], ...]:
    """The sections of all samplers, by the names of their modules."""
    names = sorted(module.name for module in iter_modules(import_module(SAMPLERS).__path__))
    return tuple(import_module(f"{SAMPLERS}.{name}").SAMPLER for name in names)


def sampler_names() -> list[str]:
    """Names of all samplers."""
    return [get_args(section.model_fields["name"].annotation)[0] for section in samplers()]
