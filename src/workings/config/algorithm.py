"""Recipe section `algorithm`: how a model learns, such as supervised fine-tuning or GRPO.

This module has the interface. Each module of `workings.ways` defines ways of learning, and lists them in ``WAYS``::

    class Sft(Way):
        name: Literal["sft"]

    WAYS = (Sft,)
"""

from abc import abstractmethod
from typing import Any, ClassVar, Literal

from pydantic import ValidationInfo

from workings.config.section import Section, choice_name, modules_of
from workings.objectives.base import Objective

DEFAULT = "sft"
Examples = Literal["traces", "pairs", "prompts", "verdicts"]


class Algorithm(Section):
    """Keys of a way of learning, and its demands on the rest of a recipe."""

    name: str
    """The algorithm."""
    examples: ClassVar[Examples] = "traces"
    """What `data.traces` holds."""
    rows_per_example: ClassVar[int] = 1
    """Rows that one example becomes; they stay in one micro batch."""
    learns_earlier_turns: ClassVar[bool] = False
    """Whether `data.learn: all` is possible."""
    records: ClassVar[tuple[str, ...]] = ()
    """Files and folders that only some ways write into a run directory (`workings.record.layout`)."""

    @property
    @abstractmethod
    def objective(self) -> Objective:
        """The loss of an update."""

    @property
    def completions_of_a_prompt(self) -> int:
        """Completions that are sampled of each prompt; 1 without rollouts."""
        return 1

    @abstractmethod
    def check(self, recipe: Any, info: ValidationInfo) -> None:
        """Refuses keys of the whole recipe that this way of learning does not support; for its validators."""

    def check_devices(self, recipe: Any, devices: int, where: str = "") -> None:
        """Raises `RequestError` if this number of devices, ``where`` they are, cannot share the rows of an update."""


def algorithms() -> tuple[type[Algorithm], ...]:
    """The sections of all ways of learning: the default first, then those of each module, sorted by its name."""
    sections = [section for module in modules_of("workings.ways") for section in getattr(module, "WAYS", ())]
    return tuple(sorted(sections, key=lambda section: choice_name(section) != DEFAULT))


def find_algorithm(name: object) -> type[Algorithm]:
    """The section of the algorithm of this name; the default's for any other name."""
    default, *others = algorithms()
    return next((section for section in others if choice_name(section) == name), default)
