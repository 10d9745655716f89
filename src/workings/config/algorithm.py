"""Recipe section `algorithm`: how a model learns, such as supervised fine-tuning or GRPO.

This module has the interface: everything that differs between imitation, preferences, rewards and a teacher. Each
module of `workings.ways` defines ways of learning, and lists them in ``WAYS``::

    class Sft(Algorithm):
        name: Literal["sft"]

    WAYS = (Sft,)
"""

from abc import abstractmethod
from typing import TYPE_CHECKING, ClassVar, Literal

from pydantic import ValidationInfo

from workings.config.section import Section, choice_name, modules_of, refused, written_keys
from workings.objectives.base import Objective

if TYPE_CHECKING:
    from workings.config.recipe import Recipe

DEFAULT = "sft"
Examples = Literal["traces", "pairs", "prompts", "verdicts"]
TeacherPrecision = Literal["fp32", "bf16", "nf4"]
"""Number formats, from most bits to fewest."""


class Algorithm(Section):
    """Keys of a way of learning, and its demands on the rest of a recipe. The defaults fit imitation of traces."""

    name: str
    """The algorithm."""
    examples: ClassVar[Examples] = "traces"
    """What `data.traces` holds."""
    rows_per_example: ClassVar[int] = 1
    """Rows that one example becomes; they stay in one micro batch."""
    learns_earlier_turns: ClassVar[bool] = False
    """Whether `data.learn: all` is possible."""
    asks_teacher_in_every_step: ClassVar[bool] = False
    """Whether a teacher stays loaded during training; otherwise it is asked before the first step."""
    reads_reference_first: ClassVar[bool] = False
    """Whether a reference reads each row of the first epoch before the first step."""
    records: ClassVar[tuple[str, ...]] = ()
    """Files and folders that only some ways write into a run directory (`workings.record.layout`)."""
    controls: ClassVar[tuple[str, ...]] = ()
    """Deliberate mistakes, by name in `workings.ways.parts.replays`, whose replay must differ from the record."""

    @property
    @abstractmethod
    def objective(self) -> Objective:
        """The loss of an update."""

    @property
    def completions_of_a_prompt(self) -> int:
        """Completions that are sampled of each prompt; 1 without rollouts."""
        return 1

    @property
    def teacher_keys(self) -> "TeacherKeys | None":
        """Keys of its teacher; None without one."""
        return None

    def check(self, recipe: "Recipe", info: ValidationInfo) -> None:
        """Refuses keys of the whole recipe that this way of learning does not support; for its validators."""
        self._check_rewards(recipe)
        given = written_keys(recipe.evaluation, info, {"items_during_training"}, name="evaluation")
        if given and not recipe.checkpoint.scores_items:
            raise refused(f"algorithm.name: {self.name} does not take {given}",
                          "no `evaluation.items_during_training`: it is for runs with rollouts, and for the best "
                          "checkpoint by accuracy", "leave it out, or checkpoint={keep: best, measure: accuracy}")
        self._check_learned_turns(recipe)

    def _check_rewards(self, recipe: "Recipe") -> None:
        if recipe.rewards:
            raise refused(f"algorithm.name: {self.name} does not take rewards", "an algorithm that learns from rewards",
                          "algorithm.name=grpo, or rewards=[]")

    def _check_learned_turns(self, recipe: "Recipe") -> None:
        if recipe.data.learn == "all" and not self.learns_earlier_turns:
            raise refused(f"algorithm.name: {self.name} does not take data.learn: all",
                          "last: only completions are trained on, not the turns before them", "data.learn=last")

    def check_devices(self, recipe: "Recipe", devices: int, where: str = "") -> None:
        """Raises `RequestError` if this number of devices, ``where`` they are, cannot share the rows of an update."""


class TeacherKeys(Algorithm):
    """Keys of a teacher: a frozen model with the student's vocabulary."""

    teacher: str
    """A sealed run's folder, a folder in Hugging Face's format, or a Hub id; of the same vocabulary."""
    teacher_revision: str = "main"
    """Branch, tag or commit on the Hub; the resolved commit is recorded."""
    teacher_precision: TeacherPrecision = "bf16"
    """Stored weights of the teacher; `nf4`: projections in 4 bits, as in QLoRA. It computes in `precision.compute`."""

    @property
    def teacher_keys(self) -> "TeacherKeys":
        """Itself."""
        return self


def algorithms() -> tuple[type[Algorithm], ...]:
    """The sections of all ways of learning: the default first, then those of each module, sorted by its name."""
    sections = [section for module in modules_of("workings.ways") for section in module.WAYS]
    return tuple(sorted(sections, key=lambda section: choice_name(section) != DEFAULT))


def find_algorithm(name: object) -> type[Algorithm]:
    """The section of the algorithm of this name; the default's for any other name."""
    default, *others = algorithms()
    return next((section for section in others if choice_name(section) == name), default)
