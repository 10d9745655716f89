"""Runs that learn from rewards, killed while they draw or write, end bit for bit like one that was not."""

import pytest

from tests.evaluation.making import items as tiny_items
from tests.evaluation.making import write_lines
from tests.evidence.reseal import reseal
from tests.runs import killed
from tests.runs.replayed import CONTROLS, verified_by_replaying
from tests.runs.runs_helpers import lines_of, train_refuses
from workings.evidence.verify import verify
from workings.record.canonical import loads
from workings.record.reader import RunRecord
from workings.runs.train import train

TORCH = ("engine=torch", *killed.DYNAMIC)
"""Sooner begun in a new process than JAX is, which is killed in `test_train_engines.py`."""


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The recipe, and a run that was never killed."""
    return killed.begin(killed.write_rewarded(tmp_path_factory.mktemp("rewarded")), TORCH)


@pytest.fixture(scope="module")
def by_jax(begun):
    """A run of the same recipe by JAX, in this process."""
    return train(str(begun[0]), begun[1].with_name("jax"), killed.DYNAMIC).run


def test_killed_in_the_middle_of_drawing_it_ends_bit_for_bit_the_same(begun, start_forked):
    killed.assert_ends_alike(begun, TORCH, "draw 3 unrewarded", start_forked)


def test_the_straight_run_verifies_and_learns(begun):
    straight = begun[1]
    assert killed.problems(straight, killed.contents(straight)) == []
    rollouts = sorted(path.name for path in (straight / "train" / "rollouts").iterdir())
    assert rollouts == ["step_000001.json", "step_000003.json", "step_000005.json"], "every second update draws"


def test_rollouts_are_drawn_again_and_wrong_ones_differ(by_jax):
    """Level 3; the first weights' rollout is learned from in two updates."""
    told = verified_by_replaying(by_jax, [*CONTROLS, "reward", "advantage"], start=0, steps=4)
    # A verifier runs no code of a record: its rewards count as recorded, and the check reports it.
    assert told["recompute.rewards"].startswith("not_checked")


def test_two_devices_draw_and_learn_the_same(begun, by_jax, workings, tmp_path):
    """Each draws its share: a sample depends on its own seed, not on where it is drawn."""
    recipe = begun[0]
    done = workings("train", recipe, *killed.DYNAMIC, "mesh.fsdp=2", "batch.micro_batch=1", "training.steps=2", "--out",
                    tmp_path / "two", devices=2)
    assert "fsdp=2" in done.stderr
    one, two = (lines_of(by_jax), lines_of(tmp_path / "two"))
    assert len(two) == 2
    for mine, other in zip(two, one, strict=False):
        assert {name: mine[name] for name in ("tokens", "supervised_tokens")} == {
            name: other[name] for name in ("tokens", "supervised_tokens")}
    # The second update begins with other weights: a shorter run has another learning rate.
    assert two[0]["loss"] == pytest.approx(one[0]["loss"], abs=1e-6)
    assert two[0]["reward"] == one[0]["reward"]
    assert verify(tmp_path / "two").failed == 0


def test_a_run_that_cannot_learn_ends_with_a_sentence_and_verifies(begun, tmp_path):
    recipe = begun[0]
    done = train(str(recipe), tmp_path / "flat", ["rewards=[{scorer: answer}]", "algorithm.patience=2"])
    # Random weights hardly ever end a text of twelve tokens.
    assert (done.status, done.steps) == ("failed", 1)
    assert done.reason.startswith("not learning: in 2 rollouts in a row every completion was cut off at ")
    assert verify(done.run).failed == 0
    assert [path.name for path in (done.run / "train" / "rollouts").iterdir()] == ["step_000001.json"]


def trained_with(tmp_path, code, *words):
    """A run that a function `own` rewards."""
    recipe = killed.write_rewarded(tmp_path)
    (tmp_path / "own.py").write_text(code)
    return train(str(recipe), tmp_path / "run", ["engine=torch", 'rewards=[{scorer: "own.py:own"}]', *words])


def test_a_run_that_has_nothing_left_to_learn_is_complete(tmp_path):
    out = tmp_path / "run"
    done = trained_with(tmp_path, "calls = []\n\n\ndef own(prompts, completions, **columns):\n"
                                  "    calls.append(1)\n"
                                  "    return [float(len(calls) > 1 or n % 2) for n in range(len(prompts))]\n",
                        "algorithm.patience=2")
    assert (done.status, done.steps) == ("complete", 3)
    assert done.reason.startswith("nothing is left to learn: in 2 rollouts in a row every completion was correct")
    assert verify(out).failed == 0
    assert (out / "checkpoints" / "step_000003").is_dir()
    manifest = out / "run_manifest.json"
    manifest.write_text(manifest.read_text().replace(done.reason, "all steps were taken"))
    reseal(out)
    assert "consistency.steps" in [check.id for check in verify(out).checks if check.verdict == "failed"]


def test_a_reward_that_is_none_ends_the_run(tmp_path):
    done = trained_with(tmp_path, "def own(prompts, completions, **columns):\n    return [None] * len(prompts)\n")
    assert (done.status, done.steps) == ("failed", 0)
    assert "reward own.py:own: returned None for completion 1 of 4" in done.reason
    assert verify(done.run).failed == 0


@pytest.mark.parametrize(("words", "said"), [
    (("batch.micro_batch=1", "algorithm.group=3"), "completions per rollout"),
    (("data.max_length=16",), "leaves 4 next to algorithm.max_new_tokens"),
    (('rewards=[{scorer: "gone.py:f"}]',), "gone.py"),
])
def test_what_cannot_be_drawn_is_refused_before_anything_is_made(begun, tmp_path, words, said):
    train_refuses(begun[0], tmp_path / "run", words, said)


@pytest.mark.full
def test_two_processes_draw_and_reward_what_one_does(begun, run_ranks):
    """And they score held-out items, at a step and at the end, each its share."""
    recipe, straight = begun
    out = straight.with_name("two")
    items = write_lines(out.with_name("asked.jsonl"), [item.to_json() for item in tiny_items(3)])
    run_ranks("workings", "train", recipe, "--out", out, *TORCH, "batch.micro_batch=1", "training.steps=2",
              f"evaluation.items={items}", "evaluation.base=false", "evaluation.max_new_tokens=8")
    first, alone = (loads((run / "train/rollouts/step_000001.json").read_bytes()) for run in (out, straight))
    for key in ("prompts", "tokens", "lengths", "rewards", "reward", "advantages"):
        assert first[key] == alone[key], key
    found = verify(out)
    assert (found.failed, RunRecord.open(out).manifest.device.processes) == (0, 2)
    assert lines_of(out)[-1]["held_out_items"] == 3
    assert (out / "eval" / "items" / "predictions.jsonl").read_text().count("\n") == 3
