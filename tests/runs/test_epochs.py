"""Training in epochs: how many steps they are is known when the rows are, and recorded."""

import json
import math

import pytest

import workings
from tests.evidence import reseal
from tests.evidence.verdicts import failed
from tests.runs.runs_helpers import RECIPE, train_refuses, write_recipe
from workings.config.load import load_recipe
from workings.data.batches import Batches
from workings.errors import RequestError
from workings.evidence.verify import verify
from workings.record.reader import RunRecord
from workings.runs.python_api.train import Keywords, keyword_recipe
from workings.runs.train import train

IN_EPOCHS = RECIPE.replace("steps: 12", "epochs: 1.5")


def test_a_run_in_epochs_records_both_is_verified_and_other_epochs_are_found(tmp_path):
    done = train(str(write_recipe(tmp_path / "asked", IN_EPOCHS)), tmp_path / "run")
    batches = done.setup.training_data.batches
    steps = batches.batches_in_epoch(0) + math.ceil(batches.batches_in_epoch(1) / 2)
    manifest = RunRecord.open(done.run).manifest
    assert (done.steps, manifest.planned_steps) == (steps, steps)
    recorded = json.loads((done.run / "config/resolved.json").read_text())["training"]
    assert (recorded["epochs"], recorded["steps"]) == (1.5, steps)
    assert f"training.steps: {steps} = 1.5 epochs" in (done.run / "train/training_log.txt").read_text()
    assert verify(done.run).failed == 0
    recipe = done.run / "config/recipe.yaml"
    recipe.write_text(recipe.read_text().replace("epochs: 1.5", "epochs: 2.5"))
    reseal.reseal(done.run)
    assert "consistency.recipe" in failed(done.run)


def test_too_short_for_its_warm_up(tmp_path):
    text = IN_EPOCHS.replace("epochs: 1.5", "epochs: 0.1")
    train_refuses(write_recipe(tmp_path / "asked", text), tmp_path / "run", (),
                  "training.warmup_steps: 2 with training.steps: 1")


def test_an_override_of_one_takes_the_place_of_the_other():
    assert load_recipe("smoke-tiny", ["training.epochs=2"]).recipe.training.steps == 0
    with pytest.raises(RequestError, match="one of the two"):
        load_recipe("smoke-tiny", ["training.epochs=2", "training.steps=3"])
    with pytest.raises(RequestError) as caught:  # an unknown key keeps the steps of the file
        load_recipe("smoke-tiny", ["epochs=2"])
    assert "training.steps" not in str(caught.value)
    with pytest.raises(RequestError, match=r"neither training\.steps nor training\.epochs"):
        load_recipe("smoke-tiny", ["training={learning_rate: 0.1}"])
    with pytest.raises(RequestError, match=r"training\.steps.*completions are sampled"):
        load_recipe("gemma-2b-grpo-v5e8", ["training.epochs=2"])


@pytest.mark.parametrize(("epochs", "steps"), [(1.0, 10), (2.0, 20), (0.1, 1), (0.3, 3), (1.05, 11), (0.001, 1)])
def test_parts_of_an_epoch_are_whole_steps(monkeypatch, epochs, steps):
    monkeypatch.setattr(Batches, "batches_in_epoch", lambda self, epoch: 10)
    assert Batches.steps_in(object.__new__(Batches), epochs) == steps


def test_a_model_and_rows_in_python_take_epochs():
    rows = [{"prompt": "2+2?", "steps": ["2+2=4"], "answer": "4"}]
    with keyword_recipe(Keywords(model="Qwen/Qwen3-0.6B", data=rows, epochs=3)) as loaded:
        assert (loaded.recipe.training.epochs, loaded.recipe.training.steps) == (3.0, 0)
    with pytest.raises(RequestError, match="a recipe does not go with epochs"):
        workings.train("smoke-tiny", epochs=3)
