"""The same promises with the JAX engine: a killed run ends bit for bit like one that was not."""

import os
import signal
import subprocess
import sys
import time

import pytest

from workings.evidence.verify import verify
from workings.record.metrics import TIME_AND_MEMORY
from workings.record.reader import Run

OVERRIDES = ("training.steps=40", "checkpoint.every_steps=7", "evaluation.every_steps=16",
             "data.buckets=[40, 48]", "batch.accumulation=2")


def start(out, *words):
    command = [sys.executable, "-m", "workings", "train", "smoke-tiny", "--out", str(out), *OVERRIDES, *words]
    return subprocess.Popen(command, env=os.environ.copy(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def finish(process):
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out


def comparable(run):
    lines = [{key: value for key, value in line.items() if key not in TIME_AND_MEMORY} for line in run.metrics()]
    last = run.checkpoints.folders()[-1]
    return lines, last.name, {file.name: file.read_bytes() for file in last.glob("*.safetensors")}


@pytest.fixture(scope="module")
def straight(tmp_path_factory):
    out = tmp_path_factory.mktemp("straight") / "run"
    finish(start(out))
    return Run.open(out)


@pytest.mark.slow
@pytest.mark.parametrize("steps", [3, 15, 33])
def test_killed_at_any_moment_it_ends_bit_for_bit_the_same(straight, tmp_path, steps):
    out = tmp_path / "run"
    process = start(out)
    metrics = out.with_name("run.partial") / "train" / "metrics.jsonl"
    while not metrics.exists() or metrics.read_bytes().count(b"\n") < steps:
        time.sleep(0.002)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not out.exists(), "it ended before it was killed"
    finish(start(out, "--resume"))
    resumed = Run.open(out)
    assert resumed.manifest.resumes == 1
    assert comparable(resumed) == comparable(straight)
    assert verify(out).failed == 0


def test_the_straight_run_verifies_and_learned(straight):
    found = verify(straight.path)
    assert found.failed == 0, found
    assert found.level == 2
    losses = [line["loss"] for line in straight.metrics()]
    assert losses[-1] < losses[0] - 1
    assert straight.manifest.actual_device.platform == "cpu"
