"""Scoring completions from elsewhere: everything odd is named, counted and never dropped, and nothing hangs."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.making import items, records, score, summary, write_lines
from workings.errors import RequestError
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.settings import EvaluationSettings
from workings.scoring.items import Item


def judge(folder: Path, lines: list[Any], asked: list[Item], **settings: Any) -> dict[str, dict[str, Any]]:
    file = folder / "predictions.jsonl"
    file.write_text("".join(line if isinstance(line, str) else json.dumps(line) + "\n" for line in lines))
    evaluate_predictions(file, asked, folder / "out", settings=EvaluationSettings(**settings))
    return {record["id"]: record for record in records(folder / "out")}


def test_pass_at_k_needs_numbered_samples(tmp_path: Path) -> None:
    lines = [{"id": "i0", "completion": "#### 7", "sample": number} for number in (0, 1)]
    lines += [{"id": "i1", "completion": "#### 8", "sample": 0}] * 2
    with pytest.raises(RequestError, match=r"with the id i1, and aggregate pass@2(?s:.*)--aggregate mean"):
        judge(tmp_path, lines, items(2), aggregate="pass@2")
    assert judge(tmp_path, lines, items(2))["i1"]["error"] == "double: 2 lines with this id"


def test_everything_odd_is_named_and_counted(tmp_path: Path) -> None:
    asked = items(8)
    lines: list[Any] = [
        {"id": "i0", "completion": "#### 7"}, "not json\n", {"completion": "no id"},
        {"id": "stranger", "completion": "1"},
        {"id": "i2", "completion": "#### 9"}, {"id": "i2", "completion": "#### 8"}, {"id": "i3", "completion": ""},
        '{"id": "i4", "completion": NaN}\n', {"id": "i5"}, {"id": "i6", "completion": ["a"]},
        {"id": "i7", "completion": "#### 10**10**10"}]
    found = judge(tmp_path, lines, asked)
    assert list(found) == [item.id for item in asked]
    assert found["i0"]["score"] == 1
    assert found["i1"]["error"] == "missing: no line with this id"
    assert found["i2"]["error"] == "double: 2 lines with this id"
    assert "error" not in found["i3"]
    assert found["i3"]["empty"] is True
    assert found["i4"]["error"] == "missing: no line with this id"
    assert found["i5"]["error"] == "no text: the line has no completion"
    assert found["i6"]["error"] == "no text: completion is ['a'] (list)"
    assert (found["i7"]["score"], found["i7"]["extracted"]) == (0, "10**10**10")
    result = summary(tmp_path / "out")
    assert result["scorecard"]["overall"]["errors"] == 5
    assert result["scorecard"]["overall"]["mean"] == 1 / 8
    assert {kind: entry["count"] for kind, entry in result["errors"].items()} == {
        "double": 1, "missing": 2, "no text": 2}
    assert result["problems"]["unknown ids"] == {"count": 1, "first": ["stranger"]}
    assert result["problems"]["lines without an id"] == {"count": 1, "first": ["line 3"]}
    assert result["problems"]["unreadable lines"]["first"][0].startswith("line 2: not JSON")


@pytest.mark.parametrize(("lines", "said"), [
    ([{"id": "x", "completion": "1"}], "no line has the id of an item"),
    ([{"id": "i0", "output": "7"}, {"id": "i1", "output": "8"}], "its keys are id, output"),
    # Every item would get ten thousand lines that say that they are missing.
    ([{"id": "i0", "sample": number, "completion": "7"} for number in (0, 9999)],
     "has a sample 9999, and only 2 lines of items")])
def test_a_file_that_answers_nothing_is_refused(tmp_path: Path, lines: list[Any], said: str) -> None:
    with pytest.raises(RequestError, match=said):
        judge(tmp_path, lines, items(2))
    with pytest.raises(RequestError, match="gone"):
        evaluate_predictions(tmp_path / "gone.jsonl", items(2), tmp_path / "out")
    assert [path.name for path in tmp_path.iterdir()] == ["predictions.jsonl"]


def test_a_huge_completion_is_named_and_not_scored(tmp_path: Path) -> None:
    lines = [{"id": "i0", "completion": "#### 7 " * 1_500_000}, {"id": "i1", "completion": "8"}]
    found = judge(tmp_path, lines, items(2))
    assert found["i0"]["error"] == "too long: 10500000 characters, the limit is 1000000"
    assert (found["i0"]["completion_chars"], len(found["i0"]["completion"])) == (10_500_000, 4_000)
    assert len(found["i0"]["completion_sha256"]) == 64
    assert found["i1"]["score"] == 1


def test_a_bare_answer_has_no_reasoning_and_broken_unicode_is_recorded(tmp_path: Path) -> None:
    found = judge(tmp_path, [{"id": "i0", "completion": " 7\n"}, {"id": "i1", "completion": "1+7=8"},
                             '{"id": "i2", "completion": "\\ud800 9"}\n'], items(3))
    assert (found["i0"]["reasoning_chars"], found["i1"]["reasoning_chars"]) == (0, 5)
    assert (found["i2"]["completion"], found["i2"]["score"]) == ("? 9", 1)


def test_samples_of_one_item(tmp_path: Path) -> None:
    lines = [{"id": "i0", "sample": k, "completion": text} for k, text in enumerate(["7", "8", "7.0"])]
    lines += [{"id": "i1", "sample": 0, "completion": "8"}]
    file = write_lines(tmp_path / "p.jsonl", lines)
    scores = {}
    for how in ("mean", "majority", "pass"):
        card = evaluate_predictions(file, items(2), tmp_path / how, settings=EvaluationSettings(aggregate=how))
        scores[how] = card.overall.mean
        assert card.overall.errors == 1  # i1 lacks two of three samples
    assert scores == {"mean": pytest.approx((2 / 3 + 1 / 3) / 2), "majority": 1, "pass": 1}


@pytest.mark.parametrize("scorer", ["ansver", "gone.py:f"])
def test_a_scorer_that_does_not_exist_is_named(tmp_path: Path, scorer: str) -> None:
    with pytest.raises(RequestError, match=scorer.split(":")[0]):
        score(tmp_path, "a", items(2), [True, True], scorer=scorer)


@pytest.mark.parametrize(("setting", "value"), [
    ("max_new_tokens", 0), ("batch_size", 0), ("temperature", -1.0), ("samples", 2), ("aggregate", "best"),
    ("item_seconds", 0.0), ("rules", ("nope",)), ("form", "nope"), ("seed", 2**53)])
def test_settings_out_of_range_are_named(setting: str, value: Any) -> None:
    with pytest.raises(RequestError, match=f"{setting}|nope"):
        EvaluationSettings(**{setting: value})
