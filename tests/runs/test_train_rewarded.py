"""Runs that learn from rewards, killed while they draw or write, end bit for bit like one that was not."""

from pathlib import Path

import pytest

from tests.runs import killed

DYNAMIC = killed.REWARDED["two updates a rollout, dynamic sampling"]


@pytest.fixture(scope="module")
def begun(tmp_path_factory, start_forked):
    """The recipe, how children start, and a run that was never killed."""
    folder = tmp_path_factory.mktemp("rewarded")
    recipe, out = killed.write_rewarded(folder), folder / "run"
    start = killed.in_fork(start_forked)
    done = killed.train(recipe, out, DYNAMIC, start)
    assert done.returncode == 0, done.stderr
    return recipe, start, out


@pytest.mark.parametrize("point", [
    "draw 3 unrewarded",  # in the middle of drawing the second rollout
    "write train/rollouts/.step_000003",  # half of a rollout's file
    pytest.param("draw 5 begun", marks=pytest.mark.full),
    "rename checkpoints/.step_000004",  # the second update of a rollout is taken again from the record
])
def test_killed_at_any_moment_it_ends_bit_for_bit_the_same(begun, point):
    recipe, start, straight = begun
    out = straight.with_name(f"killed at {point.replace('/', ' ')}")
    assert killed.was_killed(killed.train(recipe, out, DYNAMIC, start, point))
    assert killed.resume(recipe, out, DYNAMIC, start) == []
    assert killed.problems(out, killed.contents(straight)) == []


def test_the_straight_run_verifies_and_learns(begun):
    straight = begun[2]
    assert killed.problems(straight, killed.contents(straight)) == []
    rollouts = sorted(path.name for path in (straight / "train" / "rollouts").iterdir())
    assert rollouts == ["step_000001.json", "step_000003.json", "step_000005.json"], "every second update draws"


@pytest.mark.full
def test_the_pytorch_engine_too(tmp_path: Path, start_forked):
    recipe, start = killed.write_rewarded(tmp_path), killed.in_fork(start_forked)
    words = ("engine=torch", *DYNAMIC)
    straight, out = tmp_path / "run", tmp_path / "killed"
    assert killed.train(recipe, straight, words, start).returncode == 0
    assert killed.was_killed(killed.train(recipe, out, words, start, "draw 3 unrewarded"))
    assert killed.resume(recipe, out, words, start) == []
    assert killed.problems(out, killed.contents(straight)) == []
