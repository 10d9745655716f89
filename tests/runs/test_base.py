"""The untrained model is evaluated once, next to the runs, and each run is compared with it."""

import json

import pytest

from workings.evaluation.comparison.compare import compare
from workings.evidence.verify import verify
from workings.publish.pack import pack
from workings.record.layout import partial_path
from workings.record.lock import DirectoryLock
from workings.record.reader import RunRecord
from workings.runs.train_and_evaluate import train_and_evaluate


def test_runs_from_one_start_share_their_base_and_verify_together(recipe, tmp_path):
    first = train_and_evaluate(str(recipe), tmp_path / "runs" / "a")
    second = train_and_evaluate(str(recipe), tmp_path / "runs" / "b", ["training.learning_rate=0.1"])
    assert first.base.path == second.base.path == next((tmp_path / "runs").glob("base-*"))
    assert first.base.path.parent == first.training.run.parent
    # it is asked after training, and it is the untrained model all the same: rebuilt from the seed
    config = json.loads((first.base.path / "eval_config.json").read_text())
    assert config["model"]["step"] == 0
    assert config["model"]["seed"] == 5
    told = first.to_json()
    assert told["base"] == str(first.base.path)
    assert told["delta"] == pytest.approx(told["accuracy"] - told["base_accuracy"])
    assert told["verdict"] in ("better", "worse", "inconclusive")
    assert " on the same 10 items, " in first.sentence().split("compared with the untrained model: ")[1]
    assert f"{first.base.path.name} has the untrained model's answers" in first.sentence()
    assert f"workings compare {first.base.path} {first.training.run} --html page.html" in first.sentence()
    # the run's own evaluation says what it asked
    asked = json.loads((first.training.run / "eval" / "items" / "eval_config.json").read_text())
    assert asked["model"] == {"run": "a", "step": 12}
    assert asked["made_from"] == RunRecord.open(first.training.run).root
    found = verify(tmp_path / "runs")
    assert (found.failed, found.level) == (0, 2), found
    assert compare(first.base.path, first.training.run).to_json()["delta"] == told["delta"]
    pack([first.base.path, first.training.run], tmp_path / "both.zip", weights="digest")
    assert verify(tmp_path / "both.zip").level == 2


def test_a_base_that_another_run_is_asking_just_now_is_said_and_not_waited_for(recipe, tmp_path):
    place = train_and_evaluate(str(recipe), tmp_path / "runs" / "a").base.path.name
    partial = partial_path(tmp_path / "others" / place)
    partial.mkdir(parents=True)
    lock = DirectoryLock(partial)
    result = train_and_evaluate(str(recipe), tmp_path / "others" / "b")
    lock.release()
    assert result.training.status == "complete"
    assert result.base is None
    assert "the untrained model was not evaluated: " in result.sentence()
    assert "another process is writing to" in result.sentence()
