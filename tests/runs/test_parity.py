"""`workings doctor --engines`: what passes, what does not, and what is refused."""

import json

import numpy as np
import pytest

from workings.runs.parity import TOLERANCES, Parity, gradient_difference, parity


@pytest.mark.slow
@pytest.mark.parametrize("overrides", [
    *(pytest.param(overrides, marks=pytest.mark.full) for overrides in (
        ("model.shape.family=gemma2", "method={name: lora, rank: 4}"),
        ("model.shape.family=qwen3", "method={name: qlora, rank: 4}", "memory.remat=layer"))),
    ("model.shape.family=gemma3", "optimizer.name=adafactor", "data.packing=first_fit", "batch.accumulation=2",
     "memory.loss_chunk=32"),
])
def test_both_engines_compute_the_same(overrides):
    found = parity("smoke-tiny", overrides, steps=6)
    assert found.passed, found
    assert set(found.to_json()) > {"passed", "max_logit_difference", "max_loss_difference", "max_gradient_difference"}
    assert found.logit > 0, "two implementations never round alike: something was compared with itself"


def test_a_model_that_one_engine_lacks_is_refused(workings):
    done = workings("doctor", "smoke-tiny", "model.shape=qwen3.5-2b", "--engines", "--json", check=False)
    assert done.returncode == 2
    assert "qwen3_5" in done.stderr
    assert [*json.loads(done.stdout)] == ["error"]


@pytest.mark.slow
def test_steps_and_the_own_model_count(workings):
    words = ("doctor", "smoke-tiny", "model.shape.layers=1", "--engines", "--json")
    small = json.loads(workings(*words, "--steps", "6").stdout)
    own = json.loads(workings(*words, "--steps", "7", "--whole").stdout)
    assert (small["steps"], own["steps"]) == (6, 7)
    assert small["max_logit_difference"] != own["max_logit_difference"]


def made(**values):
    return Parity(model="m", steps=1, worst_gradient="a", **(dict.fromkeys(TOLERANCES, 0.0) | values))


def test_one_large_difference_or_no_number_at_all_does_not_pass():
    assert made().passed
    assert made(loss=1e-5).passed
    for name, limit in TOLERANCES.items():
        assert not made(**{name: 1.01 * limit}).passed
        assert not made(**{name: float("nan")}).passed
    assert json.loads(json.dumps(made(curve=1.0).to_json()))["max_curve_difference"] == 1.0


def test_gradients_are_measured_against_their_own_tensor():
    theirs = {"large": np.array([10.0, -20.0]), "small": np.array([0.5, 0.1]), "zero": np.array([0.0])}
    assert gradient_difference(theirs, theirs)[0] == 0
    off = theirs | {"small": np.array([0.5, 0.1 + 0.05])}
    assert gradient_difference(off, theirs) == (pytest.approx(0.1), "small")
    rounding = theirs | {"zero": np.array([1e-7])}  # against a thousandth of 20
    assert gradient_difference(rounding, theirs)[0] == pytest.approx(5e-6)
    assert gradient_difference({"large": theirs["large"]}, theirs) == (float("inf"), "small")
