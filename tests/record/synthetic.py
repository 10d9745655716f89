"""A small sealed run with realistic contents, written through the recorder itself, for tests that need one."""

import hashlib
import json
import struct
from pathlib import Path
from typing import Any

from workings.record.absent import absent
from workings.record.digest import json_digest
from workings.record.manifest import DeviceRecord, Distribution, RunManifest
from workings.record.writer import RunWriter

CONFIG: dict[str, Any] = {
    "name": "tiny", "seed": 7, "engine": "jax", "device": "cpu",
    "model": {"source": "scratch", "shape": {"family": "gemma", "layers": 1, "width": 8}},
    "data": {"traces": "train.jsonl", "max_length": 16},
    "training": {"steps": 6, "learning_rate": 0.01, "schedule": "constant"},
}


def digest_of(text: str) -> str:
    """A digest that stands for something's."""
    return hashlib.sha256(text.encode()).hexdigest()


def safetensors_bytes(values: list[float]) -> bytes:
    """A valid safetensors file with one float32 tensor."""
    body = struct.pack(f"<{len(values)}f", *values)
    header = json.dumps({"weight": {"dtype": "F32", "shape": [len(values)], "data_offsets": [0, len(body)]}}).encode()
    return struct.pack("<Q", len(header)) + header + body


def metrics_line(step: int) -> dict[str, Any]:
    """The line of one step; the loss falls."""
    return {
        "step": step, "loss": 3.0 / step, "learning_rate": 0.01, "grad_norm": 1.5 / step, "tokens": 40,
        "supervised_tokens": 25, "share_of_weights_changed": 1.0, "seconds": 0.011, "memory_bytes": 123_456_789,
        "memory_source": "growth of the peak resident set", "batch_digest": digest_of(f"batch {step}"),
    }


def manifest(status: str = "complete", steps: int = 6, planned: int = 6, **changes: Any) -> RunManifest:
    """A manifest that agrees with `metrics_line`."""
    values: dict[str, Any] = {
        "name": "tiny", "recipe": "tiny", "status": status, "status_reason": "all planned steps are done",
        "workings_version": "0.1.0", "engine": "jax",
        "engine_distribution": Distribution(name="workings", version="0.1.0"),
        "commit_sha": "a" * 40, "dirty_diff_digest": absent("nothing differed from the commit"),
        "seed": 7, "config_digest": json_digest(CONFIG), "config_snapshot": CONFIG,
        "data_digests": {"traces": digest_of("traces"), "rows": digest_of("rows"), "tokenizer": digest_of("tokenizer")},
        "model_id": "scratch", "model_revision": absent("random weights"),
        "weight_digests": absent("random weights"), "architecture": "gemma", "parameters": 1234,
        "requested_device": "cpu",
        "actual_device": DeviceRecord(platform="cpu", kind="Test CPU", count=1, reason="asked for"),
        "requested_dtypes": {"parameters": "fp32", "compute": "fp32", "moments": "fp32"},
        "actual_dtypes": {"parameters": "fp32", "compute": "fp32", "moments": "fp32", "gradients": "fp32",
                          "accumulator": "none"},
        "mesh": {"fsdp": 1, "tp": 1}, "global_batch": 2, "memory_limit_bytes": 8_000_000_000,
        "memory_limit_source": "physical memory", "measured_peak_bytes": 123_456_789,
        "measured_peak_source": "growth of the peak resident set", "hardware": "Test CPU, 2 cores",
        "vram": absent("no accelerator"), "planned_steps": planned, "completed_steps": steps, "training_steps": steps,
        "first_loss": 3.0 if steps else absent("no step"), "final_loss": 3.0 / steps if steps else absent("no step"),
        "supervised_tokens": 25 * steps, "tokens": 40 * steps,
        "started_at": "2026-11-20T10:00:00.000Z", "finished_at": "2026-11-20T10:00:09.000Z",
        "training_seconds": 0.011 * steps,
    }
    return RunManifest(**{**values, **changes})


def fill(writer: RunWriter, steps: int = 6, save_every: int = 2) -> None:
    """Everything of a run but its end."""
    begin(writer)
    for step in range(1, steps + 1):
        take_step(writer, step, save_every)


def begin(writer: RunWriter) -> None:
    """What a run writes before its first step."""
    writer.write_text("config/recipe.yaml", "name: tiny\nseed: 7\n")
    writer.write_json("config/overrides.json", [])
    writer.write_json("config/resolved.json", CONFIG)
    writer.write_json("env/env_info.json", {"python": {"version": "3.11.7"}})
    writer.write_json("env/device_checks.json", {"platform": "cpu", "passed": True, "kind": "Test CPU"})
    writer.write_jsonl("data/rows.jsonl", (
        {"id": f"row-{n}", "digest": digest_of(f"row {n}"), "tokens": 20, "supervised_tokens": 12} for n in range(4)))
    writer.event("started")
    writer.log("training starts")


def save(writer: RunWriter, step: int) -> None:
    """A checkpoint with engine-like files."""
    def write(directory: Path) -> None:
        (directory / "model.safetensors").write_bytes(safetensors_bytes([float(step)] * 64))
        (directory / "optimizer.safetensors").write_bytes(safetensors_bytes([step / 2.0] * 64))
    writer.checkpoints.save(step, write, {"position": {"epoch": 0, "offset": step * 2}, "seconds": 0.011 * step})


def take_step(writer: RunWriter, step: int, save_every: int = 2) -> None:
    """One step's line, and its checkpoint where one is due."""
    writer.metric(metrics_line(step))
    writer.log(f"step {step}: loss {3.0 / step:.4f}")
    if step % save_every == 0:
        save(writer, step)
        writer.event("checkpoint", step=step)


def sealed_run(final: Path, status: str = "complete", steps: int = 6) -> Path:
    """A sealed run."""
    writer = RunWriter.create(final)
    fill(writer, steps)
    finish(writer, status, steps)
    return final


def finish(writer: RunWriter, status: str = "complete", steps: int = 6, **changes: Any) -> None:
    """README, end event, seal."""
    writer.write_text("README.md", "# tiny\n\nA synthetic run.\n")
    writer.event("finished", status=status)
    writer.seal(status, manifest(status, steps, **changes))
