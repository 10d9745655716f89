"""The work that all contenders are given: a model that adds with mistakes, and prompts whose answers can be verified.

The model is the quickstart's (Gemma's family, which TRL by way of transformers, Tunix's own classes and both of our
engines know), trained for fewer steps by `workings train` and exported in Hugging Face's format.
"""

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from safetensors.numpy import load_file

from workings.data.generators import addition
from workings.data.traces import write_traces
from workings.inputs.datasets import ADDITION_ITEMS, ADDITION_TRACES
from workings.models.chat import ChatTemplate
from workings.models.shape import ModelShape
from workings.models.tokenizer import Tokenizer

SEED = 17
"""That of the quickstart's recipe: decides its traces, and with them which sums are left for prompts."""
PROMPTS, GROUP, NEW_TOKENS = 32, 8, 48
"""Prompts of an update, completions of each, and the most tokens of one."""
RATE, CLIP = 3e-4, 1.0
IMITATION = 260
"""Steps of imitation before: sums are right about two times in three then, so that groups differ in their rewards."""


def make_case(folder: Path, updates: int, imitation: int = IMITATION) -> dict[str, Any]:
    """Write weights, tokenizer and prompts into ``folder``; returns what a result says about them.

    Each prompt comes once: the quickstart's model was not trained on it, and no evaluation item has its numbers.
    """
    _workings("train", "quickstart", f"training.steps={imitation}", f"evaluation.every_steps={imitation}",
              f"seed={SEED}", "--out", str(folder / "imitation"))
    _workings("export", str(folder / "imitation"), "--out", str(folder / "weights"))
    shape = ModelShape(**json.loads((folder / "imitation" / "config" / "model_shape.json").read_text()))
    (folder / "shape.json").write_text(json.dumps(asdict(shape)))
    summary = json.loads((folder / "imitation" / "eval" / "items" / "eval_summary.json").read_text())
    traces, _ = addition.make(ADDITION_TRACES + updates * PROMPTS, ADDITION_ITEMS, SEED)
    traces = traces[ADDITION_TRACES:]
    tokenizer = Tokenizer.load(folder / "weights")
    template = ChatTemplate.for_config("gemma", tokenizer)
    write_traces(folder / "traces.jsonl", traces)
    records = [{"id": trace.id, "text": template.prompt_text(trace.prompt), "answer": trace.answer,
                "tokens": template.prompt_ids(trace.prompt)} for trace in traces]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    facts = {"stop_ids": template.stop_ids, "longest_prompt": max(len(record["tokens"]) for record in records)}
    (folder / "facts.json").write_text(json.dumps(facts))
    weights = load_file(folder / "weights" / "model.safetensors")
    return facts | {"parameters": sum(tensor.size for tensor in weights.values()), "vocabulary": tokenizer.vocab_size,
                    "imitation_steps": imitation,
                    "imitation_accuracy": summary["scorecard"]["overall"]["mean"],
                    "prompts_an_update": PROMPTS, "group": GROUP,
                    "new_tokens": NEW_TOKENS, "learning_rate": RATE, "clip_norm": CLIP}


def _workings(*words: str) -> None:
    done = subprocess.run([sys.executable, "-m", "workings", *words], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"workings {' '.join(words)}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
