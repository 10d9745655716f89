"""The interface of a way of learning: everything that differs between imitation, preferences, rewards and a teacher.

A way is the recipe's section `algorithm`: planning, training and verification ask this object. Its module is imported
with every recipe, so it stays small: `workings.ways.parts` makes training data and replays.
"""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any, ClassVar, Literal, get_args

from pydantic import ValidationInfo

from workings.config.algorithm import Algorithm
from workings.config.section import refused, written_keys

if TYPE_CHECKING:
    from workings.config.recipe import Recipe

KeyValues = dict[str, Any]
"""Changes of a recipe: values by dotted key, such as ``{"algorithm.updates": 2}``."""
TeacherPrecision = Literal["fp32", "bf16", "nf4"]
"""Number formats, from most bits to fewest."""


class Way(Algorithm):
    """A way of learning. The defaults fit a way that learns from rows of traces."""

    asks_teacher_in_every_step: ClassVar[bool] = False
    """Whether a teacher stays loaded during training; otherwise it is asked before the first step."""
    reads_reference_first: ClassVar[bool] = False
    """Whether a reference reads each row of the first epoch before the first step."""
    controls: ClassVar[tuple[str, ...]] = ()
    """Changes that a replay must distinguish from the record, by their names in `workings.ways.parts.replays`."""

    def check(self, recipe: Recipe, info: ValidationInfo) -> None:
        """Refuses rewards, and held-out items during training that do not select the best checkpoint."""
        self._check_rewards(recipe)
        given = written_keys(recipe.evaluation, info, {"items_during_training"}, name="evaluation")
        if given and not recipe.checkpoint.scores_items:
            raise refused(f"algorithm.name: {self.name} does not take {given}",
                          "no `evaluation.items_during_training`: it is for runs with rollouts, and for the best "
                          "checkpoint by accuracy", "leave it out, or checkpoint={keep: best, measure: accuracy}")
        self._check_learned_turns(recipe)

    def _check_rewards(self, recipe: Recipe) -> None:
        if recipe.rewards:
            raise refused(f"algorithm.name: {self.name} does not take rewards", "an algorithm that learns from rewards",
                          "algorithm.name=grpo, or rewards=[]")

    def _check_learned_turns(self, recipe: Recipe) -> None:
        if recipe.data.learn == "all" and not self.learns_earlier_turns:
            raise refused(f"algorithm.name: {self.name} does not take data.learn: all",
                          "last: only completions are trained on, not the turns before them", "data.learn=last")

    @property
    def teacher_keys(self) -> TeacherWay | None:
        """Keys of its teacher; None without one."""
        return None

    def smaller_teacher(self) -> KeyValues:
        """The next format of a teacher with fewer bits; empty without one."""
        return {}


class TeacherWay(Way):
    """Keys of a teacher: a frozen model with the student's vocabulary."""

    teacher: str
    """A sealed run's folder, a folder in Hugging Face's format, or a Hub id; of the same vocabulary."""
    teacher_revision: str = "main"
    """Branch, tag or commit on the Hub; the resolved commit is recorded."""
    teacher_precision: TeacherPrecision = "bf16"
    """Stored weights of the teacher; `nf4`: projections in 4 bits, as in QLoRA. It computes in `precision.compute`."""

    @property
    def teacher_keys(self) -> TeacherWay:
        """Itself: its keys name the teacher."""
        return self

    def smaller_teacher(self) -> KeyValues:
        """The next format with fewer bits."""
        fewer = dict(pairwise(get_args(TeacherPrecision))).get(self.teacher_precision)
        return {"algorithm.teacher_precision": fewer} if fewer else {}


def way_of(recipe: Recipe) -> Way:
    """The way of learning that a recipe names."""
    way = recipe.algorithm
    assert isinstance(way, Way)  # every section of `workings.ways` is one
    return way
