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
    return killed.begin(killed.write_recipe(tmp_path_factory.mktemp("straight")), SETTING, start_forked)


def test_killed_within_its_first_save_it_ends_bit_for_bit_the_same(begun):
    out = killed.assert_ends_alike(begun, SETTING, "write checkpoints/.step_000002.tmp/optimizer.safetensors")
    assert RunRecord.open(out).manifest.resumes == 1


def test_the_straight_run_verifies_and_says_where_it_ran(begun):
    _, _, straight = begun
    assert killed.problems(straight, killed.contents(straight)) == []
    manifest = RunRecord.open(straight).manifest
    assert (manifest.status, manifest.completed_steps, manifest.resumes) == ("complete", 6, 0)
    assert manifest.device.platform == "cpu"
