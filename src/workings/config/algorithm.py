"""A recipe's way of learning. The ways are files of `workings.ways`, found by name."""

from abc import abstractmethod
from importlib import import_module
from pkgutil import iter_modules
from typing import Any, ClassVar, Literal, get_args

from pydantic import ValidationInfo

from workings.config.section import Section
from workings.objectives.base import Objective

WAYS = "workings.ways"
"""Each module of this package, except `base`, lists its sections in ``WAYS``. Imported by name, because ways import
this package."""
DEFAULT = "sft"


class Algorithm(Section):
    """The section `algorithm`: the keys of a way of learning, and its demands on the rest of a recipe."""

    name: str
    """The algorithm; first here, so that it comes first in every list of keys."""
    examples: ClassVar[Literal["traces", "pairs", "prompts", "verdicts"]] = "traces"
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
        """Refuses keys of the whole recipe that this way of learning does not support; a part of its validation."""

    def check_devices(self, recipe: Any, devices: int, where: str = "") -> None:
        """Raises `RequestError` if this number of devices, ``where`` they are, cannot share the rows of an update."""


def algorithms() -> tuple[type[Algorithm], ...]:
    """The sections of all ways of learning, the default first."""
    ways = import_module(WAYS)
    names = {module.name for module in iter_modules(ways.__path__) if not module.ispkg} - {"base"}
    ordered = sorted(names, key=lambda name: (name != DEFAULT, name))
    return tuple(section for name in ordered for section in import_module(f"{WAYS}.{name}").WAYS)


def find_algorithm(name: object) -> type[Algorithm]:
    """The section of the algorithm of this name; the default's for any other name."""
    sections = algorithms()
    return next((section for section in sections if name in get_args(section.model_fields["name"].annotation)),
                sections[0])
