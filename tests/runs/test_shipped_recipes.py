"""Every shipped recipe's whole path, with a tiny model of the same architecture, on two simulated devices."""

import json

import pytest

from tests.runs.runs_helpers import refused
from workings.config.load import load_recipe, shipped_recipes
from workings.errors import RequestError
from workings.inputs.resolve import find_shape
from workings.record.reader import RunRecord
from workings.runs.smoke import shrink

SOME = ("gemma-3-1b-grpo-v5e8",)
"""The notebook's test runs that of Gemma 2B, and `test_train_engines.py` one of PyTorch's."""
PRETRAINED = [pytest.param(name, marks=() if name in SOME else pytest.mark.full)
              for name in shipped_recipes() if load_recipe(name).recipe.model.source == "pretrained"
              and load_recipe(name).recipe.algorithm.examples not in ("pairs", "verdicts")
              and load_recipe(name).recipe.algorithm.name != "distill"]


@pytest.mark.parametrize("name", PRETRAINED)
def test_smoke(workings, tmp_path, name):
    asked = load_recipe(name).recipe
    # One process of PyTorch has one device; JAX's two are simulated.
    words, devices = (("mesh.fsdp=1",), 1) if asked.engine == "torch" else ((), 2)
    done = workings("train", name, "--smoke", "device=cpu", *words, "--out", tmp_path / "run", "--json",
                    devices=devices)
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["status"], result["steps"], result["items"]) == ("complete", 2, 16)
    manifest = RunRecord.open(tmp_path / "run").manifest
    assert manifest.architecture == find_shape(load_recipe(name)).family
    stored = asked.precision.parameters
    # Adapters in float32 are next to weights in bfloat16.
    assert {"bf16": "bfloat16", "fp32": "float32"}[stored] in manifest.actual_dtypes["parameters"]
    if asked.rewards:
        # Completions of random weights are all wrong alike, so that nothing is learned from them.
        assert list((tmp_path / "run" / "train" / "rollouts").iterdir())
        return
    # a rounding that lets bf16 weights move at all (a linear schedule ends at zero, so the first step is looked at)
    first = json.loads((tmp_path / "run" / "train" / "metrics.jsonl").read_text().splitlines()[0])
    assert first["share_of_weights_changed"] > 0


def test_a_tiny_student_has_no_teacher():
    with pytest.raises(RequestError, match=r"--smoke does not work with algorithm\.name: distill"):
        shrink(load_recipe("gemma-3-1b-distill-rtx5090"))


def test_a_device_that_is_absent_is_not_replaced(tmp_path):
    said = refused("train", "smoke-tiny", "device=tpu", "--out", tmp_path / "run")
    assert "tpu" in said.lower()
    assert "device=cpu" in said
    assert list(tmp_path.iterdir()) == []
