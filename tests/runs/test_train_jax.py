"""The same promises with the JAX engine: a killed run ends bit for bit like one that was not.

`proof/resume.py` kills it at a hundred other points.
"""

import pytest

from tests.runs import killed
from workings.record.reader import RunRecord

SETTING = killed.SETTINGS["bf16 with stochastic rounding, Adafactor, clipped, packed"]


@pytest.fixture(scope="module")
def begun(tmp_path_factory, start_forked):
    """The recipe, how children start, and a run that was never killed with the calls that it made."""
    folder = tmp_path_factory.mktemp("straight")
    recipe, out = killed.write_recipe(folder), folder / "run"
    start = killed.in_fork(start_forked)
    done = killed.train(recipe, out, SETTING, start)
    assert done.returncode == 0, done.stderr
    return recipe, start, out


def test_killed_within_its_first_save_it_ends_bit_for_bit_the_same(begun):
    recipe, start, straight = begun
    out, point = straight.with_name("killed"), "write checkpoints/.step_000002.tmp/optimizer.safetensors"
    assert killed.was_killed(killed.train(recipe, out, SETTING, start, point))
    assert not out.exists()
    assert killed.resume(recipe, out, SETTING, start) == []
    assert killed.problems(out, killed.contents(straight)) == []
    assert RunRecord.open(out).manifest.resumes == 1


def test_the_straight_run_verifies_and_says_where_it_ran(begun):
    _, _, straight = begun
    assert killed.problems(straight, killed.contents(straight)) == []
    manifest = RunRecord.open(straight).manifest
    assert (manifest.status, manifest.completed_steps, manifest.resumes) == ("complete", 6, 0)
    assert manifest.device.platform == "cpu"
