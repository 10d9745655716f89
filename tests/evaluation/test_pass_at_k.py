"""pass@k with intervals: estimates by hand, the interval's limits, and the table of a comparison."""

from pathlib import Path

import numpy as np
import pytest

from tests.evaluation.making import items, write_lines
from workings.evaluation.comparison.compare import compare, comparison_text
from workings.evaluation.comparison.pass_at_k import pass_table
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.statistics import t_mean, wilson, wilson_effective
from workings.evaluation.unit import EvaluationRecord


def unit(folder: Path, right: list[int], samples: int) -> EvaluationRecord:
    """A sealed evaluation with this many right samples of each item."""
    asked = items(len(right))
    file = write_lines(folder.with_suffix(".jsonl"), [
        {"id": item.id, "sample": sample, "completion": f"#### {item.expected_answer if sample < count else '-1'}"}
        for item, count in zip(asked, right, strict=True) for sample in range(samples)])
    evaluate_predictions(file, asked, folder)
    return EvaluationRecord(folder)


def test_estimates_intervals_and_difference(tmp_path: Path) -> None:
    order = [(f"i{k}", "") for k in range(40)]
    a, b = unit(tmp_path / "a", [1, 0] * 20, 4), unit(tmp_path / "b", [4, 1] * 20, 4)
    one, two, four = pass_table(a, b, order)
    assert [rate.k for rate in (one, two, four)] == [1, 2, 4]
    # Of 4 samples with 1 right: pass@1 = 1/4, pass@2 = 1 - C(3,2)/C(4,2) = 1/2, pass@4 = 1.
    assert [rate.a.mean for rate in (one, two, four)] == [0.125, 0.25, 0.5]
    assert [rate.b.mean for rate in (one, two, four)] == [0.625, 0.75, 1.0]
    assert one.difference.delta == 0.5
    assert four.a.interval == wilson(20, 40)
    assert four.to_json()["a"] == {"mean": 0.5, "ci_low": pytest.approx(0.3520, abs=1e-4),
                                   "ci_high": pytest.approx(0.6480, abs=1e-4), "method": "wilson"}
    assert {"k", "a", "b", "delta", "delta_ci_low", "delta_ci_high", "method", "p_value"} == one.to_json().keys()
    # Where nothing differs the interval is that of the number of items, and not of no width.
    same = pass_table(a, a, order)[0]
    assert same.difference.to_json()["delta_ci_high"] == pytest.approx(3.841459 / 43.841459, abs=1e-6)


def test_one_sample_has_no_table_and_the_smaller_side_decides(tmp_path: Path) -> None:
    order = [(f"i{k}", "") for k in range(20)]
    one, three = unit(tmp_path / "one", [1] * 20, 1), unit(tmp_path / "three", [1] * 20, 3)
    six = unit(tmp_path / "six", [2] * 20, 6)
    assert pass_table(one, one, order) == []
    assert pass_table(one, three, order) == []
    assert [rate.k for rate in pass_table(three, six, order)] == [1, 2, 3]
    few = pass_table(three, six, [(f"i{k}", f"c{k % 3}") for k in range(20)])
    assert few[0].a.interval == "only 3 clusters; an interval needs 8"
    clustered = pass_table(three, six, [(f"i{k}", f"c{k % 10}") for k in range(20)])[0].a.to_json()
    assert clustered["method"] == "clustered t"


def test_the_interval_of_values_in_between() -> None:
    values = (np.arange(200) % 5 / 4).tolist()
    found, plain = wilson_effective(values), t_mean(values).interval
    # In the middle it is Student's t nearly.
    assert (found.low, found.high) == pytest.approx((plain.low, plain.high), abs=1e-3)
    # Few values off the end: as if each item were right or wrong, and never a width of zero.
    high = wilson_effective([1.0] * 97 + [0.9] * 3)
    assert high.low == pytest.approx(0.9556, abs=2e-3)
    assert wilson_effective([1.0] * 50).high == 1.0
    assert wilson_effective([1.0] * 50).low == pytest.approx(0.925, abs=2e-3)
    assert wilson_effective([0.0] * 50).low == 0.0
    # Right or wrong: Wilson's own interval, but for Student's quantile.
    assert wilson_effective([1.0, 0.0] * 50).low == pytest.approx(wilson(50, 100).low, abs=2e-3)


def test_compare_says_it(tmp_path: Path) -> None:
    a, b = unit(tmp_path / "a", [1, 0] * 20, 4), unit(tmp_path / "b", [4, 1] * 20, 4)
    found = compare(a.path, b.path)
    assert [rate["k"] for rate in found.to_json()["pass_at_k"]] == [1, 2, 4]
    text = comparison_text(found)
    assert "any of k samples correct (pass@k):\n  k = 1: 12.5 % (95 % interval " in text
    assert "and 100.0 % (95 % interval 91.2 to 100.0), +50.0 points (95 % interval " in text
    one = [unit(tmp_path / name, [1] * 9, 1).path for name in ("c", "d")]
    assert "pass_at_k" not in compare(*one).to_json()
