"""Runs of both engines: killed and resumed bit for bit, and what a run of PyTorch says of it.

`proof/resume.py` kills them at a hundred other points.
"""

import json

import pytest
import torch

from tests.runs import killed
from workings.evidence.verify import verify
from workings.record.reader import RunRecord
from workings.runs.train import train


@pytest.mark.parametrize(("engine", "step"), [pytest.param("jax", 2, marks=pytest.mark.full), ("torch", 4)])
def test_killed_within_a_save_it_ends_bit_for_bit_the_same(tmp_path, start_forked, engine, step):
    """bf16 with stochastic rounding, Adafactor, clipping, packing, accumulation: all that has its own state."""
    settings = (f"engine={engine}", *killed.SETTINGS["bf16 with stochastic rounding, Adafactor, clipped, packed"])
    begun = killed.begin(killed.write_recipe(tmp_path), settings)
    assert killed.problems(begun[1], killed.contents(begun[1])) == []
    out = killed.assert_ends_alike(begun, settings,
                                   f"write checkpoints/.step_{step:06d}.tmp/optimizer.safetensors", start_forked)
    manifests = [RunRecord.open(run).manifest for run in (begun[1], out)]
    assert [(manifest.status, manifest.completed_steps, manifest.resumes) for manifest in manifests] == [
        ("complete", 6, 0), ("complete", 6, 1)]


def test_a_run_says_which_pytorch_took_its_steps(tmp_path):
    done = train("smoke-tiny", tmp_path / "run", ["engine=torch", "device=cpu"], smoke=2)
    assert (done.status, done.steps) == ("complete", 2)
    manifest = RunRecord.open(tmp_path / "run").manifest
    assert manifest.engine == "torch"
    texts = {name: (tmp_path / "run" / "env" / name).read_text()
             for name in ("torch_version.txt", "nvidia_smi.txt")}
    assert torch.__version__ in texts["torch_version.txt"]
    plan = json.loads((tmp_path / "run" / "plan" / "plan.json").read_text())
    assert plan["source"] == "traced"
    assert verify(tmp_path / "run").failed == 0
