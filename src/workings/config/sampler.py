"""Recipe section `sampler`: a program that samples completions in place of the engine.

Each module of `workings.rollouts.samplers` defines one sampler, and names its section ``SAMPLER``::

    class VllmConfig(SamplerConfig):
        name: Literal["vllm"]
        url: str = ""

    SAMPLER = VllmConfig
"""

from abc import abstractmethod
from pathlib import Path
from typing import Any

from workings.config.section import Section, modules_of, refused


class SamplerConfig(Section):
    """Keys and methods that all samplers have."""

    name: str
    """The sampler."""
    ahead: bool = False
    """Whether it samples the next rollout while the engine takes the last update of the present one. Its completions
    then come from weights that are one update old, never older; the record says which, and each token's ratio is to its
    probability under those weights."""

    def check(self, recipe: Any) -> None:
        """Refuses a whole recipe without rollouts or with sharded checkpoints; for its validators."""
        if recipe.algorithm.examples != "prompts":
            raise refused(f"sampler.name: {self.name} with algorithm.name: {recipe.algorithm.name}",
                          "an algorithm that learns from its own completions", "algorithm.name=grpo")
        # `verify` compares the digest of the adapters that sampled with a file of the checkpoint.
        if recipe.checkpoint.sharded:
            raise refused(f"checkpoint.sharded: true with sampler.name: {self.name}",
                          "adapters in one file, which the sampler reads", "checkpoint.sharded=false")

    @abstractmethod
    def memory(self, recipe: Any, shape: Any, device: Any) -> dict[str, int]:
        """Bytes that it takes of the run's device, by part; of a `Recipe`, a `ModelShape` and `DeviceFacts`."""

    @abstractmethod
    def open(self, recipe: Any, engine: Any, weights: Path | None) -> Any:
        """Opens the sampler (`workings.engines.base.TaggedSampler`) of a run with this `Recipe` and `Engine`.

        ``weights``: their folder; None for random ones. Raises `RequestError` for a recipe that it does not support.
        """


def samplers() -> tuple[type[SamplerConfig], ...]:
    """The sections of all samplers, sorted by the names of their modules."""
    return tuple(module.SAMPLER for module in modules_of("workings.rollouts.samplers"))
