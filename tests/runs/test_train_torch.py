"""Runs of the PyTorch engine: killed and resumed bit for bit, the shipped recipe, and a GPU that is not there."""

import json

import pytest
import torch

from tests.runs import killed
from workings.evidence.verify import verify
from workings.record.reader import RunRecord


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")


def test_a_run_killed_within_a_checkpoint_ends_bit_for_bit_like_one_that_was_not(tmp_path, start_forked):
    """bf16 with stochastic rounding, Adafactor, clipping, packing, accumulation: all that has its own state."""
    settings = ("engine=torch", *killed.SETTINGS["bf16 with stochastic rounding, Adafactor, clipped, packed"])
    begun = killed.begin(killed.write_recipe(tmp_path), settings, start_forked)
    killed.assert_ends_alike(begun, settings, "write checkpoints/.step_000004.tmp/optimizer.safetensors")


def test_a_run_says_which_pytorch_took_its_steps(workings, tmp_path):
    done = workings("train", "smoke-tiny", "engine=torch", "--smoke", "device=cpu", "--out", tmp_path / "run", "--json",
                    environment={"OMP_NUM_THREADS": "1"})
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["status"], result["steps"], result["items"]) == ("complete", 2, 16)
    manifest = RunRecord.open(tmp_path / "run").manifest
    assert manifest.engine == "torch"
    texts = {name: (tmp_path / "run" / "env" / name).read_text()
             for name in ("torch_version.txt", "cuda_check.txt", "nvidia_smi.txt")}
    assert torch.__version__ in texts["torch_version.txt"]
    assert "device of this run: cpu" in texts["cuda_check.txt"]
    plan = json.loads((tmp_path / "run" / "plan" / "plan.json").read_text())
    assert plan["source"] == "traced"
    assert verify(tmp_path / "run").failed == 0
