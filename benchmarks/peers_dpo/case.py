"""The work that both trainers are given: a model's weights, and pairs of tokens, half of them long and half short."""

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.peers.case import SIZES, quantiles, read_shape, request_for
from workings.config.data import DataConfig
from workings.data.generators import addition
from workings.data.pair_rows import PairRows, build_pair_rows
from workings.data.preferences import PreferencePair
from workings.data.rows import Row, RowSet
from workings.data.traces import completion_text
from workings.engines.base import EngineRequest
from workings.models.chat import ChatTemplate
from workings.models.shapes import shape_from_config
from workings.models.tokenizer_training import train_tokenizer
from workings.ways.dpo import Dpo

MAX_LENGTH, VOCABULARY, PROGRAMS = 64, 512, 8
PAIRS = 16
"""Of an update, 32 rows."""
BETA, RATE = 0.1, 1e-4


def make_case(folder: Path, size: str, warm: int, steps: int) -> dict[str, Any]:
    """Write weights, tokenizer and pairs into ``folder``; returns what a result says about them.

    Of each sum the right answer stands against a wrong one, in every second pair with the steps.
    """
    from workings.engines.torch.engine import TorchEngine

    traces, _ = addition.make((warm + steps) * PAIRS, 1, 5)
    pairs = [PreferencePair(id=trace.id, prompt=trace.prompt, rejected=str(int(trace.answer) + 1),
                            chosen=completion_text(trace, "tags" if number % 2 else "answer_only"))
             for number, trace in enumerate(traces)]
    tokenizer = train_tokenizer((text for pair in pairs for text in (pair.prompt, pair.chosen)), VOCABULARY)
    made = build_pair_rows(pairs, tokenizer, ChatTemplate.for_config("gemma", tokenizer),
                           DataConfig(traces="", max_length=MAX_LENGTH))
    order = np.random.default_rng(0).permutation(len(made.ids))
    before, after = order[:warm * PAIRS], order[warm * PAIRS:]
    _write(folder / "warm.jsonl", made, before)
    _write(folder / "rows.jsonl", made, after)
    _write(folder / "sorted.jsonl", made, after[np.argsort(made.lengths[after], kind="stable")])
    shape = shape_from_config(SIZES[size], tokenizer.vocab_size)
    (folder / "shape.json").write_text(json.dumps(asdict(shape)))
    weights = folder / "weights"
    weights.mkdir()
    engine = TorchEngine.open(request_for(shape, {"compute": "fp32"}))
    state = engine.init(0)
    engine.export(state, weights)
    tokenizer.save(weights)
    lengths = np.sort(made.lengths[after])
    return {"parameters": sum(x.numel() for x in state.trained.values()), "vocabulary": tokenizer.vocab_size,
            "pairs": len(after), "pairs_an_update": PAIRS, "longest": int(lengths.max()),
            "buckets": quantiles(lengths, PAIRS, PROGRAMS), "fine": quantiles(lengths, PAIRS, steps)}


def _write(path: Path, made: PairRows, numbers: Sequence[int] | np.ndarray) -> None:
    records = []
    for number in numbers:
        chosen, rejected = made.pair(int(number))
        prompt = int((chosen.loss_mask == 0).sum())
        records.append({"prompt_ids": chosen.tokens[:prompt].tolist(), "chosen_ids": chosen.tokens[prompt:].tolist(),
                        "rejected_ids": rejected.tokens[prompt:].tolist()})
    path.write_text("".join(json.dumps(record) + "\n" for record in records))


def read_pairs(folder: Path) -> PairRows:
    """The pairs of the measured updates as the product has them."""
    rows = []
    for number, line in enumerate((folder / "rows.jsonl").read_text(encoding="utf-8").splitlines()):
        record = json.loads(line)
        for side in ("chosen", "rejected"):
            tokens = record["prompt_ids"] + record[f"{side}_ids"]
            mask = np.zeros(len(tokens), np.uint8)
            mask[len(record["prompt_ids"]):] = 1
            rows.append(Row(f"p{number}/{side}", np.array(tokens, np.int32), mask, ""))
    return PairRows(RowSet(tuple(rows), (), 0, MAX_LENGTH))


def request_of(folder: Path) -> EngineRequest:
    """What an engine is asked for: as in `benchmarks.peers`, with DPO's loss."""
    return replace(request_for(read_shape(folder), {"compute": "fp32"}), objective=Dpo(name="dpo", beta=BETA).objective)
