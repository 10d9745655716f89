"""The work that all contenders are given: SmolLM2-135M-Instruct from its package, and questions of GSM8K as prompts."""

import json
from pathlib import Path
from typing import Any

from benchmarks.peers.case import REAL
from workings.data.importing.run import ImportRequest, import_records
from workings.data.importing.sources import open_file
from workings.data.traces import read_traces, write_traces
from workings.inputs.gguf import converted, find_gguf
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer

PROMPTS, GROUP, NEW_TOKENS = 4, 8, 64
"""Prompts of an update, completions of each, and the most tokens of one."""
LONGEST = 96
"""Tokens of the longest prompt that is taken."""
RATE, CLIP, RANK = 1e-4, 1.0, 16
REWARD = Path(__file__).with_name("reward.py")


def make_case(folder: Path, gsm8k: Path, updates: int) -> dict[str, Any]:
    """Write weights and prompts into ``folder``; returns what a result says about them. Each prompt comes once."""
    package, template_name = REAL["smollm2"]
    weights = converted(find_gguf(package, ()))[0]
    (folder / "weights").symlink_to(weights)
    tokenizer = Tokenizer.load(weights)
    template = ChatTemplate.for_config(template_name, tokenizer, "hashes")
    import_records(open_file(gsm8k), folder / "gsm8k.jsonl", ImportRequest(format="gsm8k", labels={}))
    chosen = [(trace, ids) for trace in read_traces(folder / "gsm8k.jsonl")
              if len(ids := template.prompt_ids(trace.prompt)) <= LONGEST][:updates * PROMPTS]
    write_traces(folder / "traces.jsonl", [trace for trace, _ in chosen])
    records = [{"id": trace.id, "text": template.prompt_text(trace.prompt), "tokens": ids} for trace, ids in chosen]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(record) + "\n" for record in records))
    facts = {"stop_ids": template.stop_ids, "longest_prompt": max(len(record["tokens"]) for record in records)}
    (folder / "facts.json").write_text(json.dumps(facts))
    return facts | {"model": "SmolLM2-135M-Instruct", "prompts_an_update": PROMPTS, "group": GROUP,
                    "new_tokens": NEW_TOKENS, "learning_rate": RATE, "clip_norm": CLIP, "lora_rank": RANK}
