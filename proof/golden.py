"""What every way of learning computes today, frozen: a refactoring changes none of it, or its commit says what and why.

    python -m proof.golden            # writes proof/golden.json
    python -m proof.golden --check    # exit code 1 and the differences, where anything is not as frozen
    python -m proof.golden --check --only dpo    # the cases whose name holds these words

Each case trains a tiny model by the command line in a process: every way of learning on both engines, full and LoRA,
packed and not, with several updates for each rollout. Frozen are the loss and the gradient norm of each step, a digest
of every tensor of the last checkpoint, the level that `verify` reaches and how many checks failed; the verdict of
`verify` on the example run; and the plans by formula of all shipped recipes for three machines. Digests depend on the
processor and on the versions of the libraries: `--check` compares values to 1e-4 where those differ from the frozen
ones, and says so.
"""

import argparse
import hashlib
import json
import os
import random
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from tools.result_file import machine, versions, write_result

HERE = Path(__file__).resolve().parent
RESULT = HERE / "golden.json"
EXAMPLE = HERE.parent / "examples" / "runs" / "quickstart" / "runs.zip"
RECIPES = HERE.parent / "src" / "workings" / "config" / "recipes"
PACKAGES = ("jax", "jaxlib", "torch", "numpy", "transformers")
MACHINES = "t4x2,rtx5090,v5e-8"

BASE = """name: golden
seed: 17
device: cpu
model:
  source: scratch
  shape: {family: gemma3, layers: 2, width: 16, mlp_width: 16, heads: 2, kv_heads: 1, head_dim: 8}
tokenizer: train
data: {traces: addition, template: gemma, reasoning: tags, max_length: 64}
batch: {micro_batch: 4, accumulation: 2}
training: {steps: 4, learning_rate: 1e-3, schedule: cosine}
optimizer: {name: adamw}
checkpoint: {every_steps: 2, keep_last: 2}
"""
REWARDS = 'rewards: [{scorer: answer}, {scorer: "own.py:digits", weight: 0.5}]\n'
OWN_REWARD = """def digits(prompts, completions, **columns):
    return [sum(letter.isdigit() for letter in text) / 12 for text in completions]
"""
LORA = "method: {name: lora, rank: 4}\n"
TEACHER = "teacher: ../teacher, teacher_precision: fp32"
WAYS: dict[str, str] = {
    "sft": "",
    "sft lora": LORA,
    "sft packed adafactor": "data.packing=first_fit optimizer.name=adafactor optimizer.clip_norm=1.0",
    "sft muon": "optimizer.name=muon",
    "dpo": "algorithm: {name: dpo, beta: 0.5}\n",
    "dpo lora": "algorithm: {name: dpo, beta: 0.5}\n" + LORA,
    "ipo": "algorithm: {name: dpo, loss: ipo, beta: 0.2}\n",
    "orpo": "algorithm: {name: orpo}\n",
    "simpo": "algorithm: {name: simpo}\n",
    "kto": "algorithm: {name: kto}\n",
    "grpo": "algorithm: {name: grpo, group: 4, max_new_tokens: 12}\n" + REWARDS,
    "grpo lora kl": "algorithm: {name: grpo, group: 4, max_new_tokens: 12, kl_beta: 0.1}\n" + REWARDS + LORA,
    "dapo two updates":
        "algorithm: {name: dapo, group: 4, max_new_tokens: 12, updates: 2, temperature: 0.8}\n" + REWARDS,
    "rloo": "algorithm: {name: rloo, group: 4, max_new_tokens: 12}\n" + REWARDS,
    "distill": f"algorithm: {{name: distill, {TEACHER}, group: 2, max_new_tokens: 12}}\n",
    "distill traces": f"algorithm: {{name: distill_traces, {TEACHER}, top_k: 4}}\n",
}
"""A way of learning: what its recipe adds to `BASE`, as lines of YAML or as ``key=value`` words."""


def workings(*words: str | Path, cwd: Path) -> dict[str, Any]:
    """The JSON object that a command prints as its last line; its exit code and error end this script."""
    done = subprocess.run([sys.executable, "-m", "workings", *map(str, words), "--json"], cwd=cwd, check=False,
                          text=True, capture_output=True,
                          env={**os.environ, "CUDA_VISIBLE_DEVICES": "", "NO_COLOR": "1"})
    if done.returncode:
        raise SystemExit(f"workings {' '.join(map(str, words))}: exit code {done.returncode}\n{done.stderr}")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def write_pairs(path: Path, *, verdicts: bool) -> None:
    """Twenty preference pairs, a correct sum and a wrong one; or each of the two with a verdict."""
    chance = random.Random(17)  # noqa: S311
    with path.open("w", encoding="utf-8") as file:
        for number in range(20):
            left, right = chance.randint(10, 99), chance.randint(10, 99)
            chosen = f"<reasoning>{left}+{right}</reasoning><answer>{left + right}</answer>"
            rejected = f"<answer>{left + right + 1}</answer>"
            asked = {"id": f"pair-{number:02}", "prompt": f"{left}+{right}"}
            rows = [asked | {"chosen": chosen, "rejected": rejected}] if not verdicts else [
                asked | {"id": f"{asked['id']}-{label}", "completion": text, "label": label}
                for text, label in ((chosen, True), (rejected, False))]
            file.writelines(json.dumps(row) + "\n" for row in rows)


def tensor_digest(run: Path) -> str:
    """SHA-256 over names and bytes of every tensor of the last checkpoint."""
    last = max((path for path in (run / "checkpoints").iterdir() if path.name.startswith("step_")),
               key=lambda path: path.name)
    total = hashlib.sha256()
    for file in sorted(last.rglob("*.safetensors")):
        for name, value in sorted(load_file(file).items()):
            total.update(name.encode() + str(value.dtype).encode() + value.tobytes())
    return total.hexdigest()


def train_case(folder: Path, name: str, engine: str) -> dict[str, Any]:
    """Train one way on one engine; what is frozen of it."""
    addition, words = WAYS[name], []
    if addition and not addition.endswith("\n"):
        addition, words = "", addition.split()
    place = folder / f"{name.replace(' ', '-')}-{engine}"
    place.mkdir()
    text = BASE + addition
    if any(f"name: {name}" in addition for name in ("dpo", "orpo", "simpo", "kto")):
        write_pairs(place / "pairs.jsonl", verdicts="kto" in addition)
        text = text.replace("traces: addition", "traces: pairs.jsonl").replace("64}", "96}")
    (place / "own.py").write_text(OWN_REWARD, encoding="utf-8")
    (place / "recipe.yaml").write_text(text, encoding="utf-8")
    workings("train", "recipe.yaml", "--out", "run", f"engine={engine}", *words, cwd=place)
    lines = [json.loads(line) for line in (place / "run" / "train" / "metrics.jsonl").read_text().splitlines()]
    verdict = workings("verify", "run", cwd=place)
    return {"loss": [line["loss"] for line in lines], "grad_norm": [line["grad_norm"] for line in lines],
            "tokens": [line["supervised_tokens"] for line in lines], "weights": tensor_digest(place / "run"),
            "verify": verify_summary(verdict)}


def verify_summary(verdict: dict[str, Any]) -> dict[str, Any]:
    """The level that a verification reached, and the failed checks."""
    failed = [check["id"] for check in verdict["checks"] if check["verdict"] == "failed"]
    return {"level": verdict["level"], "failed": failed}


def cases(only: str) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every case whose name holds ``only``: its name and what is frozen."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "teacher.yaml").write_text(BASE.replace("name: golden", "name: teacher"), encoding="utf-8")
        made = False
        for way in WAYS:
            for engine in ("jax", "torch"):
                if only not in f"{way}, {engine}" or (way, engine) == ("sft muon", "torch"):  # refused
                    continue
                if "distill" in way and not made:
                    workings("train", "teacher.yaml", "--out", "teacher", "engine=jax", cwd=folder)
                    made = True
                yield f"{way}, {engine}", train_case(folder, way, engine)
        if only in "example run":
            with zipfile.ZipFile(EXAMPLE) as archive:
                archive.extractall(folder)
            for run in sorted((folder / "runs").iterdir()):
                if (run / "SEAL.json").is_file() or (run / "run_manifest.json").is_file():
                    yield f"example run, {run.name}", {"verify": verify_summary(workings("verify", run, cwd=folder))}
        for recipe in sorted(RECIPES.glob("*.yaml")):
            if only in f"plan, {recipe.stem}" and recipe.stem != "quickstart-distill-cpu":  # its teacher is made first
                yield f"plan, {recipe.stem}", plan_case(recipe.stem, folder)


def plan_case(recipe: str, folder: Path) -> dict[str, Any]:
    """Peak bytes by formula on each machine."""
    found = workings("plan", recipe, "--on", MACHINES, "--formula", "--no-nearest", "mesh.fsdp=auto",
                      "mesh.tp=1", "mesh.replicate=1", cwd=folder)
    return {plan["target"]: plan["peak_bytes"] for plan in found["estimates"]}


def differences(frozen: Any, now: Any, where: str, close: bool) -> Iterator[str]:
    """Where two results differ; with ``close``, numbers within 1e-4 are equal and digests are not compared."""
    if isinstance(frozen, dict) and isinstance(now, dict):
        for key in sorted({*frozen, *now}):
            if not (close and key == "weights"):
                yield from differences(frozen.get(key), now.get(key), f"{where}, {key}", close)
    elif isinstance(frozen, list) and isinstance(now, list) and len(frozen) == len(now):
        for index, (one, other) in enumerate(zip(frozen, now, strict=True)):
            yield from differences(one, other, f"{where}[{index}]", close)
    elif close and isinstance(frozen, int | float) and isinstance(now, int | float):  # JSON writes 0.0 as 0
        if abs(frozen - now) > 1e-4 * max(1.0, abs(frozen)):
            yield f"{where}: {now}, frozen {frozen}"
    elif frozen != now:
        yield f"{where}: {now}, frozen {frozen}"


def check(only: str) -> int:
    """Compare with the frozen values; the exit code."""
    result = json.loads(RESULT.read_text(encoding="utf-8"))
    frozen = result["values"]
    close = result["versions"] != versions(PACKAGES) or result["machine"]["processor"] != machine(None)["processor"]
    if close:
        print("Other versions or another processor than the frozen values: numbers are compared to 1e-4.")
    failed = 0
    for name, now in cases(only):
        found = list(differences(frozen.get(name), now, name, close))
        failed += len(found)
        print(*(found or [f"{name}: as frozen"]), sep="\n", flush=True)
    return 1 if failed else 0


def main() -> int:
    """Freeze, or compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--only", default="", metavar="WORDS")
    asked = parser.parse_args()
    if asked.check:
        return check(asked.only)
    values = json.loads(RESULT.read_text(encoding="utf-8"))["values"] if asked.only and RESULT.is_file() else {}
    for name, found in cases(asked.only):
        values[name] = found
        print(name, file=sys.stderr, flush=True)
        write_result(packages=PACKAGES, values=values)
    return 0


if __name__ == "__main__":
    sys.exit(main())
