"""A tiny teacher that was trained, and a tiny student of another shape that learns from it on traces. For the tests."""

from collections.abc import Sequence
from pathlib import Path

from tests.runs import distilled

ALGORITHM = "algorithm: {name: distill_traces, teacher: teacher, teacher_precision: fp32, top_k: 4}"


def write(folder: Path, teacher: Sequence[str] = ()) -> Path:
    """The student's recipe next to its teacher, as `tests.runs.distilled.write` has it."""
    student = distilled.write(folder, teacher)
    lines = [ALGORITHM if line.startswith("algorithm:") else line for line in student.read_text().splitlines()]
    student.write_text("\n".join(lines) + "\n")
    return student
