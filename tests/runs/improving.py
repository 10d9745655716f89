"""A task that a model of some thousand parameters learns in thirty steps: every answer is the same."""

import contextlib
import json
from pathlib import Path

from tests import kept_folders
from workings.runs.improve import ImproveRequest, improve

RECIPE = """# every question has the same answer
name: same-answer
seed: 3
engine: {engine}
device: cpu
model:
  source: scratch
  shape: {{family: gemma, layers: 1, width: 32, mlp_width: 64, heads: 2, kv_heads: 1, head_dim: 16}}
tokenizer: train
data: {{traces: traces.jsonl, max_length: 48}}
batch: {{micro_batch: 8}}
training: {{steps: 40, learning_rate: 1e-2, warmup_steps: 4}}
optimizer: {{name: adamw}}
checkpoint: {{every_steps: 20}}
evaluation: {{items: items.jsonl, samples: 0, max_new_tokens: 16, batch_size: 16, base: false}}
"""


def write_task(folder: Path, *, engine: str = "jax") -> Path:
    """A recipe with twelve traces and eight held-out items, and `prompts.jsonl` with ten questions with it."""
    folder.mkdir(parents=True, exist_ok=True)

    def question(number: int) -> str:
        return f"What is in box {number}?"

    traces = [{"id": f"t{n}", "prompt": question(n), "steps": ["Seven, as always."], "answer": "7"} for n in range(12)]
    asked = [{"id": f"q{n}", "prompt": question(n), "expected_answer": "7"} for n in range(100, 118)]
    for name, rows in (("traces", traces), ("items", asked[:8]), ("prompts", asked[8:])):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    path = folder / "recipe.yaml"
    path.write_text(RECIPE.format(engine=engine))
    return path


def improved(folder: Path) -> Path:
    """`out` of a round, in its task's folder."""
    def make(place: Path) -> None:
        recipe = write_task(place)
        with contextlib.chdir(place):
            improve(str(recipe), place / "out", request=ImproveRequest(rounds=1, prompts="prompts.jsonl",
                                                                       all_rounds=True))

    return kept_folders.copy(make, folder, "improved") / "out"
