"""A run that is stopped while it is evaluated: its record verifies, and `--resume` asks the items that are left."""

import json
import shutil

import pytest

from tests.runs.runs_helpers import write_recipe
from workings.errors import RequestError
from workings.evaluation import run as evaluation
from workings.evidence.verify import verify
from workings.record.canonical import read_json
from workings.record.layout import EVALUATION_CONFIG, RECIPE_EVALUATION, SEAL, partial_unit_path
from workings.record.reader import RunRecord
from workings.runs.create_or_resume import has_base
from workings.runs.evaluate import evaluate_run
from workings.runs.train_and_evaluate import train_and_evaluate

WORDS = ["evaluation.batch_size=2", "evaluation.base=false"]


@pytest.fixture
def answered(monkeypatch):
    """Items that were answered, in their order."""
    found, answer = [], evaluation.generate_batch
    monkeypatch.setattr(evaluation, "generate_batch", lambda session, items, settings: (
        found.extend(items), answer(session, items, settings))[1])
    return found


def until_a_signal(recipe, run, words, monkeypatch, most):
    """Trains and evaluates; a signal comes when this many items were answered."""
    answered, answer = [], evaluation.generate_batch

    def answer_or_stop(session, items, settings):
        if len(answered) == most:
            raise KeyboardInterrupt("SIGTERM")
        answered.extend(items)
        return answer(session, items, settings)

    with monkeypatch.context() as patch:
        patch.setattr(evaluation, "generate_batch", answer_or_stop)
        with pytest.raises(KeyboardInterrupt):
            train_and_evaluate(str(recipe), run, words)


@pytest.fixture
def cut_off(tmp_path, monkeypatch):
    """Recipe, and a run that answered four of its ten items when a signal came."""
    recipe, run = write_recipe(tmp_path / "asked"), tmp_path / "runs" / "a"
    until_a_signal(recipe, run, WORDS, monkeypatch, 4)
    return recipe, run


def test_the_record_verifies_without_it(cut_off):
    run = cut_off[1]
    for place in (run, run.parent):
        found = verify(place)
        assert (found.failed, found.level) == (0, 1), "nothing is there to be computed again"
    assert "a.eval-items.partial" in next(one.text for one in found.checks if one.id == "integrity.files")
    assert not (run / "eval").exists()


def test_resume_asks_only_what_is_left(cut_off, answered):
    recipe, run = cut_off
    root = RunRecord.open(run).root
    before = (partial_unit_path(run / RECIPE_EVALUATION) / "predictions.jsonl").read_bytes()
    assert before.count(b"\n") == 4
    result = train_and_evaluate(str(recipe), run, WORDS, resume=True)
    assert len(answered) == 6
    assert (result.scorecard.overall.n, result.training.status, result.training.steps) == (10, "complete", 12)
    assert result.base is None, "the recipe asks for none"
    assert RunRecord.open(run).root == root, "the run itself stays as it was sealed"
    assert (run / RECIPE_EVALUATION / "predictions.jsonl").read_bytes().startswith(before)
    assert sorted(path.name for path in run.parent.iterdir() if "partial" in path.name) == []
    found = verify(run.parent)
    assert (found.failed, found.level) == (0, 2)
    with pytest.raises(RequestError, match="is complete: there is nothing to resume"):
        train_and_evaluate(str(recipe), run, WORDS, resume=True)


def test_another_request_is_refused_and_the_verb_for_evaluations_goes_on_too(cut_off):
    recipe, run = cut_off
    with pytest.raises(RequestError, match=r"training\.learning_rate: 0\.5 before, 0\.4 now"):
        train_and_evaluate(str(recipe), run, [*WORDS, "training.learning_rate=0.4"], resume=True)
    with pytest.raises(RequestError, match="an interrupted evaluation of another request") as refused:
        evaluate_run(run, recipe.with_name("items.jsonl"), run / RECIPE_EVALUATION)
    assert f"remove {run.parent / 'a.eval-items.partial'}" in refused.value.try_next


def test_resume_asks_the_untrained_model_that_was_not(tmp_path, monkeypatch, answered):
    recipe, run, words = write_recipe(tmp_path / "asked"), tmp_path / "runs" / "a", ["evaluation.batch_size=2"]
    until_a_signal(recipe, run, words, monkeypatch, 14)  # ten of the run, and four of the untrained model
    assert (run / RECIPE_EVALUATION).is_dir()
    # A training run there, named like an evaluation of an untrained model, is not one.
    other = run.with_name("base-mine")
    other.mkdir()
    shutil.copyfile(run / SEAL, other / SEAL)
    answered.clear()
    assert not has_base(RunRecord.open(run))
    shutil.rmtree(other)
    result = train_and_evaluate(str(recipe), run, words, resume=True)
    assert (len(answered), result.scorecard.overall.n, result.base_missing) == (6, 10, "")
    assert "compared with the untrained model: " in result.sentence()
    assert not list(run.parent.glob("*.partial"))
    assert (verify(run.parent).failed, verify(run.parent).level) == (0, 2)
    with pytest.raises(RequestError, match="is complete: there is nothing to resume"):
        train_and_evaluate(str(recipe), run, words, resume=True)
    # A run that was scored otherwise has another one.
    assert has_base(RunRecord.open(run))
    own = run / RECIPE_EVALUATION / EVALUATION_CONFIG
    config = read_json(own)
    own.chmod(0o644)
    for other in ({"form": "hashes"}, {"limits": {"item_seconds": 1.0}}, {"steps": {"version": 1}}):
        own.write_text(json.dumps(config | other))
        assert not has_base(RunRecord.open(run)), other
