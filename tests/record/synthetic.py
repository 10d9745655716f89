"""A small sealed run with realistic contents, written through the recorder itself, for tests that need one.

Rows, order and batch digests are real (made by the project's own data pipeline), losses are invented. Nothing here
needs an engine: what writes a checkpoint's files is a few lines of `struct`.
"""

import hashlib
import json
import struct
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from tests.data.making import tokenizer_for
from workings.config.data import DataConfig
from workings.data.batches import Batches, Position
from workings.data.generators import addition
from workings.data.rows import RowSet, build_rows
from workings.data.traces import Trace, item_json
from workings.engines.base import Completion
from workings.engines.session import ModelSession
from workings.evaluation.run import evaluate
from workings.evaluation.settings import EvaluationSettings
from workings.hardware.device import DeviceFacts
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record import attempts, jsonl
from workings.record.digest import json_digest
from workings.record.manifest import Distribution, RunManifest
from workings.record.seal import root_digest
from workings.record.values import absent
from workings.record.writer import RunWriter
from workings.scoring.items import item_from_json

STEPS = 6
ROWS = 10
ITEMS = 12
DATA = {"traces": "train.jsonl", "template": "gemma", "reasoning": "tags", "max_length": 96, "over_length": "error",
        "buckets": [], "packing": "none"}
CONFIG: dict[str, Any] = {
    "name": "tiny", "seed": 7, "engine": "jax", "device": "cpu",
    "model": {"source": "scratch", "shape": {"family": "gemma", "layers": 1, "width": 8}},
    "data": DATA, "batch": {"micro_batch": 2, "accumulation": 2},
    "training": {"steps": STEPS, "learning_rate": 0.01, "schedule": "constant"},
}
DEVICE_CHECKS = {"platform": "cpu", "kind": "Test CPU", "count": 1, "reason": "asked for",
                 "mesh": {"fsdp": 1, "tp": 1}, "kernel": "matmul", "devices": ["TFRT_CPU_0"], "processes": 1}
ENVIRONMENT = {"python": {"version": "3.11.7"}, "packages": {"numpy": "2.0.0", "workings": "0.1.0"}}


def names(folder: Path) -> list[str]:
    """Names in a folder, hidden ones included."""
    return sorted(path.name for path in folder.iterdir())


def digest_of(text: str) -> str:
    """A digest of something."""
    return hashlib.sha256(text.encode()).hexdigest()


@cache
def tokenizer() -> Tokenizer:
    """Trained on a few additions."""
    return tokenizer_for(addition.make(200, ITEMS, 7)[0], 300)


@cache
def template() -> ChatTemplate:
    """Gemma's turns."""
    return ChatTemplate.for_config("gemma", tokenizer())


@cache
def data() -> tuple[list[Trace], list[Trace]]:
    """Traces and items."""
    return addition.make(ROWS, ITEMS, 7)


@cache
def row_set() -> RowSet:
    """Real rows."""
    return build_rows(data()[0], tokenizer(), template(), DataConfig.model_validate(DATA))


@cache
def batches() -> Batches:
    """Real batches: 4 rows per step, so that six steps reach the third epoch."""
    return Batches(row_set(), seed=7, rows_per_micro_batch=2, accumulation=2,
                   data_config=DataConfig.model_validate(DATA))


@cache
def steps() -> tuple[dict[str, Any], ...]:
    """Lines of the steps; the loss falls."""
    lines, position = [], Position()
    for step in range(1, STEPS + 1):
        batch, position = batches().at(position)
        lines.append({
            "step": step, "loss": 3.0 / step, "learning_rate": 0.01, "grad_norm": 1.5 / step,
            "tokens": batch.real_tokens, "supervised_tokens": batch.supervised_tokens,
            "share_of_weights_changed": 1.0, "seconds": 0.011, "memory_bytes": 123_456_789,
            "memory_source": "growth of the peak resident set", "batch_digest": Batches.digest(batch)})
    return tuple(lines)


def safetensors_bytes(values: Sequence[float]) -> bytes:
    """A valid safetensors file with one float32 tensor."""
    body = struct.pack(f"<{len(values)}f", *values)
    header = json.dumps({"weight": {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, len(body)]}}).encode()
    return struct.pack("<Q", len(header)) + header + body


def manifest(status: str = "complete", **changes: Any) -> RunManifest:
    """A manifest of a run whose other files `begin` and `take_step` write."""
    values: dict[str, Any] = {
        "name": "tiny", "status": status, "status_reason": "all planned steps are done",
        "engine_distribution": Distribution(name="workings", version="0.1.0"),
        "commit_sha": digest_of("commit")[:40], "dirty_diff_digest": absent("nothing differed from the commit"),
        "model_id": "scratch", "model_revision": absent("random weights"),
        "weight_digests": absent("random weights"), "parameters": 1234,
        "actual_dtypes": {"parameters": "fp32", "compute": "fp32", "moments": "fp32", "gradients": "fp32",
                          "accumulator": "fp32"},
        "finished_at": "2026-11-20T10:00:09.000Z"}
    return RunManifest(**{**values, **changes})


def data_digests() -> dict[str, str]:
    """Digests of the data."""
    return {"traces": digest_of("traces"), "rows": row_set().digest, "tokenizer": tokenizer().digest}


def begin(writer: RunWriter) -> None:
    """What a run writes before its first step."""
    attempts.append(writer.final.parent, {"run": "tiny", "recipe": "tiny", "config_digest": json_digest(CONFIG),
                                          "resume": False})
    write_inputs(writer)
    jsonl.append(writer.path("train/events.jsonl"), {"time": "2026-11-20T10:00:00.000Z", "kind": "started"})
    writer.log("training starts")


def write_inputs(writer: RunWriter) -> None:
    """Recipe, tokenizer, environment and data."""
    writer.write_text("config/recipe.yaml", "name: tiny\nseed: 7\n")
    writer.write_json("config/overrides.json", {"origin": "tiny.yaml", "overrides": []})
    writer.write_json("config/resolved.json", CONFIG)
    tokenizer().save(writer.path("config/tokenizer"))
    writer.write_json("env/env_info.json", ENVIRONMENT)
    writer.write_json("env/device_checks.json", DEVICE_CHECKS)
    writer.write_json("plan/measured.json", {"measured_peak_bytes": 123_456_789,
                                             "measured_source": "growth of the peak resident set"})
    writer.write_json("data/digests.json", data_digests())
    writer.write_cleaned("data/rows.jsonl", row_set().index_bytes)


def save(writer: RunWriter, step: int) -> None:
    """A checkpoint with engine-like files."""
    def write(directory: Path) -> None:
        (directory / "model.safetensors").write_bytes(safetensors_bytes([float(step)] * 64))
        (directory / "optimizer.safetensors").write_bytes(safetensors_bytes([step / 2.0] * 64))
    writer.checkpoints.save(step, write, {"position": {"epoch": 0, "batch": step}, "seconds": 0.011 * step})


def take_step(writer: RunWriter, step: int, save_every: int = 2) -> None:
    """One step's line, and its checkpoint where one is due."""
    writer.metric(steps()[step - 1])
    writer.log(f"step {step}: loss {3.0 / step:.4f}")
    if step % save_every == 0:
        save(writer, step)
        writer.event("checkpoint", step=step)


def finish(writer: RunWriter, status: str = "complete", **changes: Any) -> None:
    """README and seal."""
    writer.write_text("README.md", f"# tiny\n\nStatus: **{status}**.\n\nA synthetic run.\n")
    writer.seal(manifest(status, **changes))


def sealed_run(final: Path, status: str = "complete", done: int = STEPS, **changes: Any) -> Path:
    """A sealed run without evaluation."""
    writer = RunWriter.create(final)
    begin(writer)
    for step in range(1, done + 1):
        take_step(writer, step, save_every=1 if done % 2 else 2)
    finish(writer, status, **changes)
    return final


class CannedEngine:
    """Answers every third question wrongly, with the right form."""

    name = "jax"

    def describe(self) -> DeviceFacts:
        return DeviceFacts(platform="cpu", kind="Test CPU", count=1, memory_limit_bytes=8_000_000_000,
                           memory_limit_source="physical memory", mesh={"fsdp": 1, "tp": 1}, versions={"canned": "1"},
                           reason="asked for")

    def generate(self, state: Iterator[str], prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[Completion]:
        return [Completion(tokens=tokenizer().encode(next(state)), finish_reason="stop") for _ in prompts]


def add_evaluation(run: Path, name: str = "test") -> Path:
    """An evaluation of a sealed run, in it."""
    items = [item_from_json(item_json(trace)) for trace in data()[1]]
    answers = iter([f"<reasoning>{index}</reasoning><answer>"
                    f"{item.expected_answer if index % 3 else '7'}</answer>" for index, item in enumerate(items)])
    session = ModelSession(engine=CannedEngine(), state=answers, tokenizer=tokenizer(),  # type: ignore[arg-type]
                           template=template())
    evaluate(session, items, run / "eval" / name, settings=EvaluationSettings(form="tags"), made_from=root_digest(run))
    return run / "eval" / name
