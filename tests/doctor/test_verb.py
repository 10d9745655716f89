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


def test_setting_up_cuda_without_a_card_is_refused_and_nothing_is_written(workings, tmp_path):
    done = workings("doctor", "--setup", "cuda", "--json", check=False, cwd=tmp_path,
                    environment={"PATH": "/nowhere"})
    assert done.returncode == 1
    assert "no nvidia-smi" in answer(done)["findings"][0]["what"]
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("words", [["no-such-recipe"], ["--setup", "rocm"], ["--whole"],
                                   ["--engines", "--out", "x"], ["--setup", "cuda", "--engines"]])
def test_a_wrong_request(words):
    assert words[-1] in refused("doctor", *words)
