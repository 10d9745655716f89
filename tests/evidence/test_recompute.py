"""Evaluations of every kind, scored again from their own record."""

import json
from pathlib import Path

import pytest

from tests.evaluation.making import items
from tests.evidence import reseal, walk
from tests.evidence.fakes_elsewhere import KEPT, OF_SAMPLES, kept
from tests.evidence.records import ITEMS, RecordOf, scored_completions
from tests.evidence.verdicts import failed, said
from tests.samples.making import drawing_model, samples_unit
from workings.data.traces import trace_from_json
from workings.evaluation.run import evaluate, evaluate_predictions
from workings.evaluation.settings import EvaluationSettings
from workings.evidence.verify import verify
from workings.evidence.verify.registry import differences
from workings.scoring import mathematics
from workings.scoring.items import Item, read_items


@pytest.fixture(params=["any", "tags"])
def unit(tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    return scored_completions(tmp_path, request.param)


def correct(unit: Path) -> int:
    """Number of correct items of an evaluation."""
    count: int = json.loads((unit / "eval_summary.json").read_text())["scorecard"]["overall"]["correct"]
    return count


def test_completions_from_elsewhere_score_the_same_again(unit: Path) -> None:
    found = verify(unit)
    assert (found.failed, found.level) == (0, 2)
    assert correct(unit) == 3


@pytest.mark.parametrize(("key", "value", "expected"), [
    ("scorer", {"name": "mine.py:score", "version": "1"}, "its code is not run"),
    ("scorer", {"name": "answer", "version": "0"}, "scorer.version is '0', and here '5'"),
    ("extraction", {"version": 0, "rules": "default"}, "extraction.version is '0', and here '5'")])
def test_what_cannot_be_scored_again_is_not_checked(unit: Path, key: str, value: object, expected: str) -> None:
    reseal.edit_json(unit / "eval_config.json", lambda config: config | {key: value})
    reseal.reseal(unit)
    verdict, text = said(unit)["recompute.scores"]
    assert (verdict, expected in text) == ("not_checked", True)
    assert verify(unit).level == 1


@pytest.mark.slow
def test_mathematics_is_scored_again_where_its_library_is_the_same(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("math_verify", reason="the extra `score` is not installed")
    rows = [{"id": "a", "completion": r"\boxed{\sqrt{20}}"}, {"id": "b", "completion": r"\boxed{\sqrt{5}}"}]
    (tmp_path / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    unit = tmp_path / "out"
    asked = [Item(id=name, prompt="How long?", expected_answer=r"2\sqrt{5}") for name in "ab"]
    evaluate_predictions(tmp_path / "predictions.jsonl", asked, unit, settings=EvaluationSettings(scorer="math"))
    found = verify(unit)
    assert (found.level, found.failed) == (2, 0)
    assert correct(unit) == 1
    for library, words in (("no-such-library", "scorer: math needs math-verify"),
                          ("numpy", "'4 (math-verify")):
        monkeypatch.setattr(mathematics, "LIBRARIES", (library,))
        verdict, text = said(unit)["recompute.scores"]
        assert (verdict, words in text) == ("not_checked", True), text


def test_numbers_may_differ_in_their_last_bits_only() -> None:
    assert [*differences({"a": 0.1 + 0.2, "b": [1, True]}, {"a": 0.3, "b": [1.0, True]})] == []
    assert [*differences({"a": 0.3, "b": 1}, {"a": 0.31, "c": 1})] == [
        "$.b is on one side only", "$.c is on one side only", "$.a is '0.3', expected '0.31'"]
    for one, other in (([1, 2], [1]), (True, 1), ("x", "y")):
        assert [*differences(one, other)] == [f"$ is {str(one)!r}, expected {str(other)!r}"]


@pytest.mark.parametrize(("aggregate", "right"), [("majority", 1), ("pass", 2), ("mean", 0), ("pass@2", 1)])
def test_several_samples_an_item(tmp_path: Path, aggregate: str, right: int) -> None:
    (tmp_path / "items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ITEMS[2:4]))
    answers = {"c": ["12", "12", "13"], "d": ["7", "8", "8"]}
    (tmp_path / "predictions.jsonl").write_text("".join(
        json.dumps({"id": name, "sample": sample, "completion": f"#### {text}"}) + "\n"
        for name, texts in answers.items() for sample, text in enumerate(texts)))
    evaluate_predictions(tmp_path / "predictions.jsonl", read_items(tmp_path / "items.jsonl"), tmp_path / "out",
                         settings=EvaluationSettings(aggregate=aggregate))
    found = verify(tmp_path / "out")
    assert (found.failed, found.level) == (0, 2)
    assert correct(tmp_path / "out") == right


# --- samples ------------------------------------------------------------------------------------------------------

def test_the_form_of_kept_lines_is_not_what_is_caught(record_of: RecordOf) -> None:
    files = dict(record_of("samples")[0])
    before = files[KEPT]
    kept(lambda rows: rows)(files)
    assert files[KEPT] == before
    assert all(trace_from_json(json.loads(line)) for line in before.splitlines())


def test_samples_do_not_stand_among_the_evaluations_of_a_run(run: Path) -> None:
    """There they could be of questions that the run was trained on, and no one would look."""
    samples_unit(run / "eval" / "drawn")
    assert "recompute.selection" in failed(run)


def test_an_evaluation_names_its_seeds(tmp_path: Path) -> None:
    evaluate(drawing_model(), items(4), tmp_path / "drawn", made_from=None, facts={"id": "adder"},
             settings=EvaluationSettings(temperature=1.0, samples=2, form="tags"))
    assert failed(tmp_path / "drawn") == set()
    for name in ("no seeds", "another seed"):
        files = walk.files_of(tmp_path)
        OF_SAMPLES[name][0](files)
        assert failed(walk.write_files(walk.resealed(files), tmp_path / name) / "drawn") == {"consistency.answers"}
