"""Runs of the JAX engine that are killed and resumed, and what must be equal at the end. For the tests and `proof/`."""

import json
import signal
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch

from tests import kept_folders
from tests.children import ForkedChild
from tests.runs.runs_helpers import lines_of
from workings.data.generators import addition
from workings.data.preferences import PreferencePair
from workings.data.row_fields import lines_bytes
from workings.data.traces import completion_text, write_traces
from workings.evidence.verify import verify
from workings.publish.export import export_run
from workings.record.layout import REFERENCE_LOG_PROBS
from workings.record.metrics import TIME_AND_MEMORY
from workings.record.reader import RunRecord
from workings.runs import train as training

ROOT = Path(__file__).resolve().parents[2]

RECIPE = """# as small as a transformer with sliding layers can be
name: killed
seed: 17
engine: jax
device: cpu
model:
  source: scratch
  shape: {family: gemma3, layers: 1, width: 16, mlp_width: 16, heads: 1, kv_heads: 1, head_dim: 8}
tokenizer: train
data: {traces: traces.jsonl, template: gemma, reasoning: tags, max_length: 64}
batch: {micro_batch: 2, accumulation: 2}
training: {steps: 6, learning_rate: 1e-3, schedule: cosine}
optimizer: {name: adamw}
checkpoint: {every_steps: 2, keep_last: 2}
"""
SETTINGS: dict[str, tuple[str, ...]] = {
    "fp32, AdamW": (),
    "bf16 with stochastic rounding, Adafactor, clipped, packed": (
        "precision.parameters=bf16", "precision.rounding=stochastic", "precision.moments=bf16",
        "optimizer.name=adafactor", "optimizer.clip_norm=1.0", "data.packing=first_fit"),
}


DYNAMIC = ("algorithm.name=dapo", "algorithm.updates=2", "algorithm.max_resamples=3", "algorithm.temperature=0.8")
"""For the recipe with rewards. Groups of 4, rollouts of 8: every second update resumes in the middle of a rollout."""
REWARD = """def vowels(prompts, completions, **columns):
    return [float(sum(text.count(vowel) for vowel in "aeiou") > 1) for text in completions]
"""


def write_recipe(folder: Path) -> Path:
    """The recipe as a file, next to its traces: the fourth of its six updates goes on in the second epoch."""
    path = folder / "killed.yaml"
    path.write_text(RECIPE)
    write_traces(folder / "traces.jsonl", addition.make(15, 1, seed=17)[0])
    return path


def trained_and_exported(folder: Path) -> Path:
    """A folder with a tiny Gemma 3 after some steps as a run, `run`, and as plain weights, `model`."""
    settings = ["training.learning_rate=0.05", "training.steps=24", "checkpoint.every_steps=24",
                "data.traces=addition", "model.shape.layers=2"]  # else it learns one answer to everything

    def make(place: Path) -> None:
        export_run(training.train(str(write_recipe(place)), place / "run", settings).run, place / "model")

    return kept_folders.copy(make, folder, "trained-and-exported")


def write_rewarded(folder: Path) -> Path:
    """The same, learning from rewards: one of the user's own and one of ours."""
    (folder / "own.py").write_text(REWARD)
    path = write_recipe(folder).rename(folder / "rewarded.yaml")
    path.write_text(RECIPE + """algorithm: {name: dr_grpo, group: 4, max_new_tokens: 12}
rewards: [{scorer: "own.py:vowels"}, {scorer: length, weight: 0.5}]
""")
    return path


def write_pairs(folder: Path) -> Path:
    """The same, learning from preference pairs: of each sum the right one before a wrong one."""
    traces, _ = addition.make(9, 1, seed=0)
    (folder / "pairs.jsonl").write_bytes(lines_bytes(PreferencePair(
        id=trace.id, prompt=trace.prompt, chosen=completion_text(trace, "tags"),
        rejected=f"<answer>{int(trace.answer) + 1}</answer>").to_json() for trace in traces))
    path = folder / "pairs.yaml"
    path.write_text(RECIPE.replace("traces.jsonl", "pairs.jsonl").replace("64}", "64, buckets: [48]}")
                    + "algorithm: {name: dpo, beta: 0.5}\n")
    return path


Child = subprocess.CompletedProcess[str]
Start = Callable[[Path, str, Sequence[str]], Child]
"""Runs `killed_child.run` with these arguments in its own process."""


def in_fork(start_forked: Callable[..., ForkedChild]) -> Start:
    """Forked children; see `tests.children`."""
    def start(out: Path, kill_at: str, words: Sequence[str]) -> Child:
        child = start_forked("-m", "tests.runs.killed_child", str(out), kill_at, *words, cwd=ROOT,
                             environment={"OMP_NUM_THREADS": "1"})
        said, error = child.communicate()
        return Child(child.args, child.wait(), said, error)

    return start


Begun = tuple[Path, Path]
"""A recipe, and a run that was never killed."""


def begin(recipe: Path, settings: Sequence[str]) -> Begun:
    """Train a run next to its recipe, which nothing disturbs, in this process."""
    if "engine=torch" in settings:
        torch.set_num_threads(1)  # as in the child that is killed; a module's fixture comes before the test's own limit
    return recipe, training.train(str(recipe), recipe.with_name("run"), settings).run


def train(recipe: Path, out: Path, settings: Sequence[str], start: Start, kill_at: str = "0") -> Child:
    """Begin a run in a child, or continue with it; killed at a call (see `killed_child`), or not at all."""
    there = out.exists() or out.with_name(f"{out.name}.partial").exists()
    return start(out, kill_at, [str(recipe), *settings, *(["--resume"] if there else [])])


def resume(recipe: Path, out: Path, settings: Sequence[str], start: Start) -> list[str]:
    """Let a killed run end; what went wrong. One that was killed while it was sealed only needs its seal."""
    if out.exists():
        return []
    done = train(recipe, out, settings, start)
    sealed = done.returncode == 2 and ("it is sealed now" in done.stderr or "is complete" in done.stderr)
    return [] if done.returncode == 0 or sealed else [f"resuming ended with {done.returncode}: {done.stderr[-800:]}"]


def was_killed(done: Child) -> bool:
    """Whether a child died by its own hand."""
    return done.returncode == -signal.SIGKILL


def contents(out: Path) -> dict[str, object]:
    """Everything of a sealed run that must not depend on when it was killed: every bit but times and memory."""
    run = RunRecord.open(out)
    found: dict[str, object] = {
        "metrics": [{key: value for key, value in line.items() if key not in TIME_AND_MEMORY}
                    for line in run.metrics()]}
    for folder in run.checkpoints.folders():
        state = json.loads((folder / "state.json").read_bytes())
        state["facts"].pop("training_seconds")
        found[f"{folder.name}/state"] = state
        found |= {f"{folder.name}/{file.name}": file.read_bytes() for file in sorted(folder.glob("*.safetensors"))}
    if (reference := out / REFERENCE_LOG_PROBS).is_file():
        found[REFERENCE_LOG_PROBS] = reference.read_bytes()
    for name in ("config", "data", "train/rollouts"):
        found |= {str(file.relative_to(out)): file.read_bytes() for file in sorted((out / name).rglob("*"))
                  if file.is_file()}
    return found


def problems(out: Path, straight: dict[str, object]) -> list[str]:
    """Where a resumed run differs from one that was never killed, and what its verification says."""
    if not out.exists() or out.with_name(f"{out.name}.partial").exists():
        return ["it was not sealed"]
    found = contents(out)
    differing = [name for name in sorted(straight.keys() | found.keys()) if straight.get(name) != found.get(name)]
    failed = [f"{check.id}: {check.text}" for check in verify(out).checks if check.verdict == "failed"]
    return [f"{name} differs" for name in differing] + failed


def assert_ends_alike(begun: Begun, settings: Sequence[str], kill_at: str, start_forked: Callable[..., ForkedChild]
                      ) -> Path:
    """Killed at this call in a child and resumed here, another run ends bit for bit like the undisturbed one."""
    recipe, straight = begun
    out = straight.with_name(f"killed-{kill_at[:5].strip()}")
    assert was_killed(train(recipe, out, settings, in_fork(start_forked), kill_at))
    assert training.train(str(recipe), out, settings, resume=True).status == "complete"
    assert problems(out, contents(straight)) == []
    return out


def assert_engines_agree(recipe: Path, settings: Sequence[str], folder: Path, names: Sequence[str]) -> None:
    """Both engines take the same three steps from the weights of a folder; ``names``: further metrics."""
    first = training.train(str(recipe), folder / "first", [*settings, "training.steps=1"])
    base = folder / "base"
    base.mkdir()
    first.setup.engine.export(first.state, base)
    first.setup.tokenizer.save(base)
    words = [*settings, f"model={{source: pretrained, id: {base}}}", "tokenizer=model", "training.steps=3"]
    runs = [lines_of(training.train(str(recipe), folder / engine, [*words, f"engine={engine}"]).run)
            for engine in ("jax", "torch")]
    for here, there in zip(*runs, strict=True):
        assert here["batch_digest"] == there["batch_digest"]
        for name in ("loss", "grad_norm", *names):
            assert there[name] == pytest.approx(here[name], rel=2e-3, abs=1e-4), (here["step"], name)
