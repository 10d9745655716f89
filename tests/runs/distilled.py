"""A tiny teacher that was trained, and a tiny student of another shape that learns from it. For the tests."""

from collections.abc import Sequence
from pathlib import Path

from tests import kept_folders
from workings.record.digest import json_digest
from workings.runs.train import train

TEACHER = """name: teacher
seed: 3
engine: jax
device: cpu
model:
  source: scratch
  shape: {layers: 1, width: 16, mlp_width: 32, heads: 2, kv_heads: 1, head_dim: 8}
tokenizer: train
data: {traces: addition, template: gemma, reasoning: tags, max_length: 64}
batch: {micro_batch: 8}
training: {steps: 30, learning_rate: 1e-2, schedule: constant}
optimizer: {name: adamw}
"""
STUDENT = """name: student
seed: 3
engine: jax
device: cpu
model:
  source: scratch
  shape: {layers: 1, width: 16, mlp_width: 16, heads: 1, kv_heads: 1, head_dim: 8}
tokenizer: teacher/config/tokenizer
data: {traces: addition, template: gemma, reasoning: tags, max_length: 64}
algorithm: {name: distill, teacher: teacher, teacher_precision: fp32, group: 2, max_new_tokens: 12}
batch: {micro_batch: 8}
training: {steps: 4, learning_rate: 1e-2, schedule: constant}
optimizer: {name: adamw}
checkpoint: {every_steps: 2}
"""
ON_TRACES = "algorithm: {name: distill_traces, teacher: teacher, teacher_precision: fp32, top_k: 4}"


def write(folder: Path, teacher: Sequence[str] = (), *, on_traces: bool = False) -> Path:
    """The student's recipe next to its teacher, a sealed run, which was trained with these ``key=value`` words.

    With ``on_traces`` the student learns from its teacher on the traces, else on its own completions.
    """
    def make(place: Path) -> None:
        (place / "teacher.yaml").write_text(TEACHER)
        train(str(place / "teacher.yaml"), place / "teacher", teacher)

    kept_folders.copy(make, folder, f"teacher-{json_digest(list(teacher))}")
    student = folder / "student.yaml"
    student.write_text("\n".join(ON_TRACES if on_traces and line.startswith("algorithm:") else line
                                 for line in STUDENT.splitlines()) + "\n")
    return student
