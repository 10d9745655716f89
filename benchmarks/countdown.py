"""The Countdown table on one accelerator: SFT, IPO and RLOO of Qwen2.5-0.5B, next to published numbers.

    python -m benchmarks.countdown --model FOLDER --solved FILE --problems FILE --out FOLDER [--steps 100]
        [--problems-trained 2000] [key=value ...]

Published for this model and task (the model card of a course project): 0.366 after SFT, 0.408 after IPO, 0.641 after
RLOO, the mean of 50 problems with 16 answers each at temperature 0.6. RLOO there: rate 1e-5, 128 completions an
update in groups of 8, divergence 1e-3, up to 1,024 new tokens, 100 updates, one H100. Here answers are sampled from the
whole vocabulary, there with top-k 20 and top-p 0.95.

The script needs the real model and data, and downloads nothing. From the Hugging Face Hub:

- `--model`: the folder of Qwen/Qwen2.5-0.5B;
- `--solved`: the parquet file of Asap7772/cog_behav_all_strategies (`query`, `completion`);
- `--problems`: the parquet file of Jiayi-Pan/Countdown-Tasks-3to4 (`nums`, `target`).

Pairs for IPO are a correct and a wrong one of the SFT model's own samples. A second call resumes the first.
Words like `batch.micro_batch=64` override every recipe. Writes `benchmarks/results/countdown.json`.
"""

import argparse
import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet

from tools.result_file import write_result
from workings.data.traces import Trace, write_traces
from workings.errors import RequestError
from workings.evaluation.unit import read_scorecard

REWARD = Path(__file__).with_name("countdown_reward.py")
PUBLISHED = {"sft": 0.366, "ipo": 0.408, "rloo": 0.641}
TESTED, ANSWERS = 50, 16
NEW_TOKENS = 1024
WIDTH, LAYERS = 896, 24
MOST_NATS = 5.0
"""A trained model has about 3 nats per token on the sentence below, random weights about 12."""
SENTENCE = "The capital of France is Paris, and the capital of Italy is Rome."
QUESTION = ("Using the numbers {nums}, create an equation that equals {target}. You can use basic arithmetic "
            "operations (+, -, *, /) and each number can only be used once. Show your work in <think> </think> tags. "
            "And return the final answer in <answer> </answer> tags, for example <answer> (1 + 2) / 3 </answer>.")
RECIPE = """name: countdown
seed: 17
model: {source: pretrained, id: MODEL}
data: {traces: traces.jsonl, template: tokenizer, reasoning: answer_only, max_length: 1536, over_length: drop}
method: {name: full}
precision: {compute: bf16}
batch: {micro_batch: 16, accumulation: 4}
training: {steps: 60, learning_rate: 1e-5, schedule: cosine, warmup_steps: 5}
optimizer: {name: adamw, clip_norm: 1.0}
checkpoint: {every_steps: 50, keep_last: 1}
"""
NOT_PACKED = ("data.packing=none", "training={learning_rate: 1e-5, schedule: constant, warmup_steps: 5, steps: STEPS}")
IPO = ("data.traces=pairs.jsonl", "algorithm={name: dpo, loss: ipo, beta: 0.1}", "batch.micro_batch=8")
RLOO = ("data.traces=prompts.jsonl", "algorithm={name: rloo, group: 8, kl_beta: 0.001, max_new_tokens: 1024}",
        "batch={micro_batch: 16, accumulation: 8}", "rewards=[{scorer: 'countdown_reward.py:reward'}]")


def check_model(folder: Path) -> None:
    """Raises `RequestError` unless a folder has the trained weights of Qwen2.5-0.5B."""
    expected = "the folder of Qwen/Qwen2.5-0.5B"
    download = "huggingface-cli download Qwen/Qwen2.5-0.5B --local-dir qwen2.5-0.5b, where there is a network"
    if not (folder / "config.json").is_file():
        raise RequestError(f"{folder} has no config.json", expected, download)
    config = json.loads((folder / "config.json").read_text())
    found = tuple(config.get(key) for key in ("model_type", "hidden_size", "num_hidden_layers"))
    if found != ("qwen2", WIDTH, LAYERS):
        raise RequestError(f"{folder} has another model: {found}", expected, download)
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
    ids = AutoTokenizer.from_pretrained(folder)(SENTENCE, return_tensors="pt").input_ids
    with torch.no_grad():
        loss = float(AutoModelForCausalLM.from_pretrained(folder)(ids, labels=ids).loss)
    if not loss < MOST_NATS:
        raise RequestError(f"the weights of {folder} are not trained: {loss:.1f} nats per token of English", expected,
                           download)


def make_data(given: argparse.Namespace) -> None:
    """Recipe, reward, traces, prompts and items, unless they are there. The last problems are the items."""
    if (given.out / "items.jsonl").exists():
        return
    given.out.mkdir(parents=True, exist_ok=True)
    (given.out / "recipe.yaml").write_text(RECIPE)
    shutil.copy(REWARD, given.out)
    write_traces(given.out / "traces.jsonl", [
        Trace(id=f"solved-{number}", prompt=row["query"], steps=(), answer=row["completion"])
        for number, row in enumerate(parquet.read_table(given.solved).to_pylist())])
    # With a number as the expected answer a number would be looked for, and not an equation.
    problems = [{"id": f"problem-{number}", "prompt": QUESTION.format(**row), "nums": row["nums"],
                 "target": row["target"], "expected_answer": f"an equation that equals {row['target']}"}
                for number, row in enumerate(parquet.read_table(given.problems).to_pylist())]
    for name, some in (("prompts", problems[:given.problems_trained]), ("items", problems[-TESTED:])):
        (given.out / f"{name}.jsonl").write_text("".join(json.dumps(problem) + "\n" for problem in some))


def make_pairs(predictions: Path, pairs: Path) -> None:
    """Pairs of the first correct and the first wrong sample of each problem that has both."""
    # Not by `workings data sample --pairs`: the solved examples have none of the forms whose samples it keeps.
    found: dict[str, dict[bool, dict[str, Any]]] = {}
    for row in map(json.loads, predictions.read_text().splitlines()):
        if row["finish_reason"] == "stop" and row["completion"].strip():
            found.setdefault(row["id"], {}).setdefault(row["score"] == 1, row)
    pairs.write_text("".join(json.dumps({
        "id": name, "prompt": both[True]["prompt"], "chosen": both[True]["completion"],
        "rejected": both[False]["completion"]}) + "\n" for name, both in found.items() if len(both) > 1))


def call(*words: object) -> None:
    """A command of `workings`; its failure ends the script."""
    subprocess.run([sys.executable, "-m", "workings", *map(str, words)], check=True)


def train(given: argparse.Namespace, name: str, model: Path, *words: str) -> dict[str, Any]:
    """Train and evaluate an arm, or find it done; the mean of its answers with its interval."""
    run, unit = given.out / name, given.out / f"{name}-answers"
    if not unit.exists():
        call("train", given.out / "recipe.yaml", f"name={name}", f"model.id={model.resolve()}",
             *(word.replace("STEPS", str(given.steps)) for word in words), *given.words, "--out", run, "--auto-resume")
        call("eval", run, "--items", given.out / "items.jsonl", "--out", unit, "--samples", ANSWERS,
             "--temperature", 0.6, "--max-new-tokens", NEW_TOKENS, "--scorer", f"{given.out / REWARD.name}:score")
    overall = read_scorecard(unit)["overall"]
    return {key: overall[key] for key in ("mean", "ci_low", "ci_high")} | {"published": PUBLISHED[name]}


def main() -> int:
    """Runs the arms that are missing and writes the result; 0, or 2 for another model."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name in ("--model", "--solved", "--problems", "--out"):
        parser.add_argument(name, type=Path, required=True)
    parser.add_argument("--steps", type=int, default=100, help="updates of IPO and RLOO")
    parser.add_argument("--problems-trained", type=int, default=2000)
    parser.add_argument("words", nargs="*", help="overrides of every recipe")
    given = parser.parse_args()
    try:
        check_model(given.model)
    except RequestError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    make_data(given)
    found = {"sft": train(given, "sft", given.model)}
    sft, samples = given.out / "sft-model", given.out / "samples"
    if not sft.exists():
        call("export", given.out / "sft", "--out", sft)
    if not samples.exists():
        call("data", "sample", given.out / "sft", "--prompts", given.out / "prompts.jsonl", "--out", samples,
             "--max-new-tokens", NEW_TOKENS, "--scorer", f"{given.out / REWARD.name}:score")
    make_pairs(samples / "predictions.jsonl", given.out / "pairs.jsonl")
    found["ipo"] = train(given, "ipo", sft, *NOT_PACKED, *IPO)
    found["rloo"] = train(given, "rloo", sft, *NOT_PACKED, *RLOO)
    write_result(packages=["workings", "torch"], words=f"--steps {given.steps} {' '.join(given.words)}", values=found)
    return 0


if __name__ == "__main__":
    sys.exit(main())
