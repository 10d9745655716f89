"""The work that all contenders are given: SmolLM2-135M-Instruct from its package, and GSM8K as prompts or as pairs."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.peers.case import REAL
from workings.data.importing.run import ImportRequest, import_records
from workings.data.importing.sources import open_file
from workings.data.traces import completion_text, read_traces, write_traces
from workings.inputs.gguf import converted, find_gguf
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer

PROMPTS, GROUP, NEW_TOKENS = 4, 8, 64
"""Prompts of an update, completions of each, and the most tokens of one."""
LONGEST = 96
"""Tokens of the longest prompt that is taken."""
PAIRS, LONGEST_PAIR = 4, 256
"""Pairs of an update, and tokens of the longest row that is taken."""
RATE, CLIP, RANK = 1e-4, 1.0, 16
REWARD = Path(__file__).with_name("reward.py")


def make_case(folder: Path, gsm8k: Path, updates: int, way: str) -> dict[str, Any]:
    """Write weights and prompts or pairs into ``folder``; returns what a result says about them. Each comes once."""
    package, template_name = REAL["smollm2"]
    weights = converted(find_gguf(package, ()))[0]
    (folder / "weights").symlink_to(weights)
    tokenizer = Tokenizer.load(weights)
    template = ChatTemplate.for_config(template_name, tokenizer, "hashes")
    import_records(open_file(gsm8k), folder / "gsm8k.jsonl", ImportRequest(format="gsm8k", labels={}))
    common = {"model": "SmolLM2-135M-Instruct", "learning_rate": RATE, "clip_norm": CLIP, "lora_rank": RANK}
    if way == "dpo":
        pairs = _pairs(folder, template, updates * PAIRS)
        # Ours in the project's form, TRL's with the turns written out.
        for name, written in (("traces", pairs), ("written", [
                {"prompt": template.prompt_text(pair["prompt"])} | {
                    side: template.completion_text(pair["prompt"], pair[side]) for side in ("chosen", "rejected")}
                for pair in pairs])):
            (folder / f"{name}.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in written))
        return common | {"pairs_an_update": PAIRS, "longest": LONGEST_PAIR}
    chosen = [(trace, ids) for trace in read_traces(folder / "gsm8k.jsonl")
              if len(ids := template.prompt_ids(trace.prompt)) <= LONGEST][:updates * PROMPTS]
    write_traces(folder / "traces.jsonl", [trace for trace, _ in chosen])
    records = [{"id": trace.id, "text": template.prompt_text(trace.prompt), "tokens": ids} for trace, ids in chosen]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    facts = {"stop_ids": template.stop_ids, "longest_prompt": max(len(record["tokens"]) for record in records)}
    (folder / "facts.json").write_text(json.dumps(facts))
    return facts | common | {"prompts_an_update": PROMPTS, "group": GROUP, "new_tokens": NEW_TOKENS}


def _pairs(folder: Path, template: ChatTemplate, count: int) -> list[dict[str, str]]:
    """Solutions, preferred to those that end with another question's answer."""
    pairs: list[dict[str, str]] = []
    answer = "0"
    for trace in read_traces(folder / "gsm8k.jsonl"):
        good, bad = (completion_text(replace(trace, answer=given), "hashes") for given in (trace.answer, answer))
        written = template.prompt_text(trace.prompt) + template.completion_text(trace.prompt, good)
        if answer != trace.answer and len(template.tokenizer.encode(written)) <= LONGEST_PAIR - 8:
            pairs.append({"id": trace.id, "prompt": trace.prompt, "chosen": good, "rejected": bad})
        answer = trace.answer
    return pairs[:count]
