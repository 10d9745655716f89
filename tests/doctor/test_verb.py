"""`workings doctor` as a person runs it."""

import json

import pytest

from tests.runs.runs_helpers import refused


def answer(done):
    return json.loads(done.stdout.splitlines()[-1])


def test_a_recipe_on_this_machine(workings, tmp_path):
    out = tmp_path / "runs"
    done = workings("doctor", "smoke-tiny", "device=cpu", "precision.compute=bf16", "--json", "--out", out)
    found = {row["id"]: row for row in answer(done)["findings"]}
    assert answer(done)["problems"] == 0
    assert "matmul 128x64x32 bf16 is right" in found["kernel.jax"]["what"]
    assert set(found) >= {"hardware", "kernel.jax", "space.host", "space.disk", "versions"}
    assert "smoke-tiny keeps 2 checkpoints" in found["space.disk"]["what"]
    assert all(row["why"] for row in found.values())


def test_a_device_that_is_not_here_is_a_problem_with_what_to_type(workings):
    done = workings("doctor", "smoke-tiny", "device=gpu", "--json", check=False)
    if done.returncode == 0:
        pytest.skip("this machine has a GPU")
    found = {row["id"]: row for row in answer(done)["findings"]}
    assert done.returncode == 1
    assert found["kernel.jax"]["judgement"] == "problem"
    assert found["kernel.jax"]["mend"] == "device=cpu"


@pytest.mark.parametrize("words", [["no-such-recipe"], ["--whole"], ["--engines", "--out", "x"]])
def test_a_wrong_request(words):
    assert words[-1] in refused("doctor", *words)
