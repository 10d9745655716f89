"""A small recipe for the unigram engine of `tests/other_package`, and how to run it in a child."""

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from workings.cli.main import app
from workings.data.generators import addition
from workings.data.traces import Trace, write_items, write_traces
from workings.errors import RequestError
from workings.record.reader import RunRecord
from workings.runs.train import train

OTHER_PACKAGE = Path(__file__).resolve().parent.parent / "other_package"

RECIPE = """# a unigram model: enough to test everything but the mathematics of a transformer
name: unigram
seed: 5
engine: unigram
device: cpu
model:
  source: scratch
  shape: {layers: 1, width: 8, mlp_width: 8, heads: 1, kv_heads: 1, head_dim: 8}
tokenizer: train
data: {traces: traces.jsonl, max_length: 64, buckets: [32, 48]}
batch: {micro_batch: 4, accumulation: 2}
training: {steps: 12, learning_rate: 0.5, schedule: linear, warmup_steps: 2}
optimizer: {name: adamw}
precision: {parameters: fp32}
checkpoint: {every_steps: 3, keep_last: 2}
evaluation: {traces: held_out.jsonl, items: items.jsonl, every_steps: 4, samples: 1, max_new_tokens: 4, batch_size: 8}
"""
DIES_WITHIN_THE_SECOND_BATCH = """
import os, signal, sys
from workings.record.jsonl import Appender
whole, calls = Appender.append_bytes, []
def torn(self, data):
    calls.append(data)
    whole(self, data if len(calls) < 2 else data[:len(data) // 2].rstrip(b"\\n"))
    if len(calls) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
Appender.append_bytes = torn
from workings.cli.main import main
sys.exit(main())
"""


@cache
def forty_additions() -> tuple[list[Trace], list[Trace]]:
    """Traces and ten held-out items. To choose them among all additions takes longer than some runs."""
    return addition.make(40, 10, 5)


def write_recipe(folder: Path, text: str = RECIPE) -> Path:
    """The recipe with its data with it."""
    folder.mkdir(parents=True, exist_ok=True)
    traces, items = forty_additions()
    write_traces(folder / "traces.jsonl", traces)
    write_traces(folder / "held_out.jsonl", items)
    write_items(folder / "items.jsonl", items)
    path = folder / "recipe.yaml"
    path.write_text(text)
    return path


def refused(*words: object) -> str:
    """What the command line says of words that it refuses, asked in this process."""
    asked = CliRunner().invoke(app, [*map(str, words)])
    assert isinstance(asked.exception, RequestError), asked.output
    return str(asked.exception)


def train_refuses(recipe: Path, out: Path, words: Sequence[str], said: str) -> None:
    """A run is refused with a text, before anything is made."""
    with pytest.raises(RequestError) as caught:
        train(str(recipe), out, words)
    assert said in str(caught.value)
    assert not [*out.parent.glob(f"{out.name}*")]


def lines_of(run: Path) -> list[dict[str, Any]]:
    """The metrics of a run."""
    return [json.loads(line) for line in (run / "train" / "metrics.jsonl").read_text().splitlines()]


def last_weights(run: Path) -> dict[str, bytes]:
    """The tensor files of a run's last checkpoint, with its name."""
    last = RunRecord.open(run).checkpoints.folders()[-1]
    return {f"{last.name}/{file.name}": file.read_bytes() for file in last.glob("*.safetensors")}


def resumed_bit_for_bit(engine: Any, folder: Path, words: Sequence[str], monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run whose third step failed, resumed: it ends with the weights of ``runs/straight``."""
    out, step = folder / "runs" / "stopped", engine.step
    taken: list[float] = []

    def broken(self: Any, state: Any, batch: Any, rate: float) -> Any:
        taken.append(rate)
        state, result = step(self, state, batch, rate)
        return state, replace(result, loss=math.nan) if len(taken) == 3 else result

    with monkeypatch.context() as patched:
        patched.setattr(engine, "step", broken)
        assert train(str(folder / "recipe.yaml"), out, words).status == "failed"
    assert train(str(folder / "recipe.yaml"), out, words, resume=True).status == "complete"
    assert last_weights(out) == last_weights(folder / "runs" / "straight")
    return out
