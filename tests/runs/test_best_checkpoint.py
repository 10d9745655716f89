"""Runs that keep their best checkpoint and stop when none is better: resumed bit for bit, evaluated, and lied about."""

import json
import shutil

import pytest

from tests.evidence import reseal
from tests.evidence.verdicts import failed
from tests.runs import killed
from tests.runs.runs_helpers import train_refuses
from workings.data.generators import addition
from workings.data.traces import write_items, write_traces
from workings.evidence.verify import verify
from workings.record.layout import EVALUATION_CONFIG, LOG, RECIPE_EVALUATION
from workings.record.reader import RunRecord
from workings.runs.open_model import open_run
from workings.runs.train_and_evaluate import train_and_evaluate

pytestmark = pytest.mark.slow
BEST = ("checkpoint={every_steps: 2, keep_last: 1, keep: best, measure: loss, patience: 2}",
        "evaluation={traces: held_out.jsonl, every_steps: 2}", "training.steps=40", "training.schedule=constant",
        # So large that the loss soon grows again.
        "training.learning_rate=0.3")


def write(folder):
    """The recipe, its traces, and held-out traces and items next to it."""
    recipe = killed.write_recipe(folder)
    traces, items = addition.make(30, 8, seed=3)
    write_traces(folder / "held_out.jsonl", traces[15:])
    write_items(folder / "items.jsonl", items)
    return recipe


@pytest.fixture(scope="module")
def begun(tmp_path_factory):
    """The recipe, and a run that was never killed."""
    return killed.begin(write(tmp_path_factory.mktemp("best")), BEST)


def test_it_ends_when_patience_does_and_keeps_the_best(begun):
    run = RunRecord.open(begun[1])
    losses = {line["step"]: line["evaluation_loss"] for line in run.metrics() if "evaluation_loss" in line}
    best = min(losses, key=losses.get)
    done = run.manifest.completed_steps
    assert (run.status, done) == ("complete", best + 4)
    assert done < 40
    assert run.manifest.status_reason == (f"no better loss than after step {best} in 2 checkpoints, which is "
                                          "checkpoint.patience")
    kept = run.manifest.facts["kept"]
    assert (kept["step"], kept["value"], kept["last_step"]) == (best, losses[best], done)
    assert "without the rows needed for an interval" in kept["interval"]["absent"]
    assert [path.name for path in run.checkpoints.folders()] == [f"step_{best:06d}", f"step_{done:06d}"]
    assert open_run(begun[1]).checkpoint.step == run.kept_step == best
    found = verify(begun[1])
    assert found.failed == 0, [check for check in found.checks if check.verdict == "failed"]
    assert f"kept       the checkpoint of step {best}: its loss" in (begun[1] / LOG).read_text()


def test_killed_and_resumed_it_ends_bit_for_bit_the_same(begun, start_forked):
    out = killed.assert_ends_alike(begun, BEST, "rename checkpoints/.step_000004", start_forked)
    assert RunRecord.open(out).manifest.facts["kept"] == RunRecord.open(begun[1]).manifest.facts["kept"]


def test_by_accuracy_and_evaluated_with_the_kept_weights(begun, tmp_path):
    done = train_and_evaluate(str(begun[0]), tmp_path / "run", [
        "checkpoint={every_steps: 1, keep_last: 1, keep: best, measure: accuracy, patience: 2}",
        "evaluation={items: items.jsonl, every_steps: 1, items_during_training: 8, max_new_tokens: 8, samples: 0, "
        "base: false, batch_size: 8}", "training.learning_rate=0.01"])
    run = RunRecord.open(done.training.run)
    # Random weights are right on none: the first of equal ones is kept, and two more end the run.
    assert (run.kept_step, run.manifest.completed_steps) == (1, 3)
    assert run.manifest.facts["kept"]["sentence"].startswith("the checkpoint of step 1: its accuracy 0.0 %")
    assert json.loads((run.path / RECIPE_EVALUATION / EVALUATION_CONFIG).read_text())["model"]["step"] == 1
    found = verify(run.path)
    assert found.failed == 0, [check for check in found.checks if check.verdict == "failed"]


@pytest.mark.parametrize(("name", "value"), [("step", 40), ("value", 0.001), ("measured", 99), ("measure", "accuracy")])
def test_fakes_about_what_was_kept_are_found(begun, tmp_path, name, value):
    shutil.copytree(begun[1], tmp_path / "forged")
    facts = RunRecord.open(begun[1]).manifest.facts
    reseal.edit_manifest(tmp_path / "forged", facts={**facts, "kept": {**facts["kept"], name: value}})
    reseal.reseal(tmp_path / "forged")
    assert "consistency.checkpoints" in failed(tmp_path / "forged")


def test_a_run_that_went_on_without_patience_is_found(begun, tmp_path):
    shutil.copytree(begun[1], tmp_path / "forged")

    def longer_patience(config):
        return {**config, "checkpoint": {**config["checkpoint"], "patience": 1}}

    reseal.change_config(tmp_path / "forged", longer_patience)
    reseal.reseal(tmp_path / "forged")
    assert "consistency.checkpoints" in failed(tmp_path / "forged")


@pytest.mark.parametrize(("words", "said"), [
    (("checkpoint={keep: best}",), "evaluation.traces=FILE"),
    (("checkpoint={keep: best, measure: accuracy}",), "evaluation.items=eval"),
    (("checkpoint={patience: 3}",), "checkpoint.keep=best"),
    (("checkpoint={keep: best, every_steps: 3}", "evaluation={traces: held_out.jsonl, every_steps: 2}"),
     "evaluation.every_steps=3"),
    (("checkpoint={keep: best}", "evaluation={traces: held_out.jsonl, items: items.jsonl, every_steps: 2, "
      "items_during_training: 4}"), "checkpoint={keep: best, measure: accuracy}"),
])
def test_what_cannot_be_measured_is_refused(tmp_path, words, said):
    recipe = write(tmp_path)
    train_refuses(recipe, tmp_path / "run", words, said)
