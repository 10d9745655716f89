"""Comparisons: comparable at all, the difference, the verdict, the sentence."""

import json
from pathlib import Path

import pytest

from tests.evaluation.making import completions, items, score, summary, write_lines
from tests.evaluation.making import item_result as result
from workings.errors import RequestError
from workings.evaluation.comparison.compare import compare
from workings.evaluation.comparison.paired import paired_difference
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.unit import find_pair, read_scorecard


def pattern(both: int, only_a: int, only_b: int, neither: int) -> tuple[list[bool], list[bool]]:
    a = [True] * both + [True] * only_a + [False] * only_b + [False] * neither
    b = [True] * both + [False] * only_a + [True] * only_b + [False] * neither
    return a, b


def test_better_with_all_its_numbers(tmp_path: Path) -> None:
    a, b = pattern(40, 4, 30, 26)
    asked = items(100)
    found = compare(score(tmp_path, "a", asked, a), score(tmp_path, "b", asked, b))
    answer = found.to_json()
    assert answer["verdict"] == "better"
    assert answer["items"] == 100
    assert (answer["a"]["accuracy"], answer["b"]["accuracy"]) == (0.44, 0.70)
    assert answer["delta"] == pytest.approx(0.26)
    assert 0 < answer["delta_ci_low"] < 0.26 < answer["delta_ci_high"] < 0.5
    # Score statistic (30 - 4) / sqrt(34) = 4.459; exact McNemar 2 * sum_{k<=4} C(34, k) / 2**34.
    assert answer["p_value"] == pytest.approx(8.23e-6, rel=1e-2)
    assert answer["mcnemar_p"] == pytest.approx(6.164e-6, rel=1e-3)
    assert (answer["newly_right"], answer["newly_wrong"]) == (30, 4)
    assert answer["newly_wrong_ids"] == ["i40", "i41", "i42", "i43"]
    assert found.sentence.startswith(
        "b is better than a: 70.0 % (95 % interval 60.4 to 78.1) against 44.0 % (95 % interval 34.7 to 53.8) on the "
        "same 100 items, +26.0 points (95 % interval +")
    # The wider half of Tango's interval times 2.801585 / 1.959964.
    assert found.sentence.endswith("; 100 items can show differences of 15.0 points or more.")
    assert answer["minimum_detectable_effect"] == pytest.approx((answer["delta_ci_high"] - 0.26) * 1.429406, rel=1e-4)
    assert answer["flips"] == [
        {"section": "overall", "wrong_to_right": 30, "right_to_wrong": 4, "both_right": 40, "both_wrong": 26,
         "items": 100},
        {"section": "core", "wrong_to_right": 15, "right_to_wrong": 2, "both_right": 20, "both_wrong": 13, "items": 50},
        {"section": "edge", "wrong_to_right": 15, "right_to_wrong": 2, "both_right": 20, "both_wrong": 13, "items": 50}]
    assert None not in answer.values()
    assert json.loads(json.dumps(answer)) == answer


def test_worse_and_inconclusive(tmp_path: Path) -> None:
    a, b = pattern(40, 4, 30, 26)
    asked = items(100)
    first, second = score(tmp_path, "a", asked, a), score(tmp_path, "b", asked, b)
    assert compare(second, first).verdict == "worse"
    same = compare(first, first)
    assert (same.verdict, same.to_json()["delta"], same.to_json()["p_value"]) == ("inconclusive", 0, 1)
    # No item differs: the interval is z² / (n + z²) to both sides, and the smallest visible effect follows from it.
    assert same.to_json()["delta_ci_high"] == pytest.approx(3.841459 / 103.841459, abs=1e-6)
    assert same.to_json()["minimum_detectable_effect"] == pytest.approx(0.036994 * 2.801585 / 1.959964, abs=1e-5)
    assert "a (A)" in same.sentence
    assert "a (B)" in same.sentence


@pytest.mark.parametrize(("change", "reason"), [
    ({"scorer": "exact"}, "scorer"), ({"rules": ("hashes",)}, "extraction rules"),
    ({"aggregate": "pass"}, "aggregation of samples differ: mean and pass")])
def test_another_way_of_scoring_is_not_comparable(tmp_path: Path, change: dict[str, object], reason: str) -> None:
    asked, right = items(20), [True] * 20
    found = compare(score(tmp_path, "a", asked, right), score(tmp_path, "b", asked, right, **change))
    assert found.verdict == "not comparable"
    assert any(reason in text for text in found.reasons)
    assert "delta" not in found.to_json()


def test_errors_are_said(tmp_path: Path) -> None:
    asked = items(20)
    file = write_lines(tmp_path / "b.jsonl", completions(asked[:15], [True] * 15))
    evaluate_predictions(file, asked, tmp_path / "b")
    found = compare(score(tmp_path, "a", asked, [True] * 20), tmp_path / "b")
    assert "5 items of b could not be scored and count as 0" in found.notes
    assert found.verdict == "worse"


def test_scores_in_between_get_a_t_interval_and_clusters_widen_it() -> None:
    """Ten items each in ten clusters that move together are ten observations, not a hundred."""
    between = paired_difference([(result(k, 0.5), result(k, 0.5 + 0.1 * (k % 3))) for k in range(30)])
    assert (between.verdict, between.to_json()["method"], "mcnemar_p" in between.to_json()) == ("better", "t", False)
    alone, grouped = [], []
    for k in range(100):
        better = float(k // 10 < 6)
        worse = float(6 <= k // 10 < 8)
        alone.append((result(k, worse), result(k, better)))
        grouped.append((result(k, worse, f"c{k // 10}"), result(k, better, f"c{k // 10}")))
    assert paired_difference(alone).verdict == "better"
    clustered = paired_difference(grouped)
    assert clustered.to_json()["method"] == "clustered t"
    assert clustered.verdict == "inconclusive"
    few = paired_difference([(result(k, 0.0, f"c{k % 4}"), result(k, 1.0, f"c{k % 4}")) for k in range(40)])
    assert (few.verdict, few.interval) == ("inconclusive", "only 4 clusters; an interval needs 8")
    assert "delta_ci_low" not in few.to_json()


def test_units_of_a_run_are_found(tmp_path: Path) -> None:
    asked, other = items(10), items(12)
    for run in ("a", "b"):
        score(tmp_path / run / "eval", "items", asked, [True] * 10)
    score(tmp_path / "a" / "eval", "more", other, [True] * 12)
    unit_a, unit_b = find_pair(tmp_path / "a", tmp_path / "b")
    assert (unit_a.path.name, unit_b.path.name) == ("items", "items")
    assert read_scorecard(tmp_path / "b")["overall"] == summary(tmp_path / "b/eval/items")["scorecard"]["overall"]
    with pytest.raises(RequestError, match="workings eval"):
        find_pair(tmp_path, tmp_path / "a")


@pytest.mark.parametrize(("typed", "said"), [("before", "did you mean runs/before?"), ("other/x", "workings runs")])
def test_a_run_is_looked_for_below_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, typed: str, said: str) -> None:
    score(tmp_path / "runs", "before", items(2), [True, True])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match="does not exist") as caught:
        compare(Path(typed), tmp_path / "runs/before")
    assert caught.value.try_next == said
