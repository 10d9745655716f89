"""What ways with a teacher share: the keys that name it."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, ClassVar, Literal, get_args

from workings.ways.base import Way

TeacherPrecision = Literal["fp32", "bf16", "nf4"]
"""Formats from most bits to fewest: the search for a plan that fits tries the next one."""


class TeacherWay(Way):
    """Keys of a teacher: a frozen model with the student's vocabulary."""

    # A tiny model would have another vocabulary than the teacher.
    smoke: ClassVar[bool] = False

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

    def smaller_teacher(self) -> dict[str, Any]:
        """The next format with fewer bits."""
        fewer = dict(pairwise(get_args(TeacherPrecision))).get(self.teacher_precision)
        return {"algorithm.teacher_precision": fewer} if fewer else {}
