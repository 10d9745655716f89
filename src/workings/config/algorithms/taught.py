"""What algorithms with a teacher have in common: which model it is, and how it is stored."""

from typing import Literal

from workings.config.section import Section

TeacherPrecision = Literal["fp32", "bf16", "int8", "nf4"]
"""From most bits to fewest: a plan that does not fit tries the next one."""


class Taught(Section):
    """A frozen model of the student's vocabulary judges tokens."""

    name: str
    """The algorithm; first here, so that it comes first in every list of keys."""
    teacher: str
    """A sealed run's folder, a folder in Hugging Face's format, or a Hub id; of the same vocabulary."""
    teacher_revision: str = "main"
    """Branch, tag or commit on the Hub; the resolved commit is recorded."""
    teacher_precision: TeacherPrecision = "bf16"
    """Stored weights of the teacher. `int8`: projections in 8 bits with a scale a row, as LLM.int8 stores them; `nf4`:
    in 4 bits, as in QLoRA. It computes in `precision.compute`."""
