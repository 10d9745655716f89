"""Several seeds of two recipes, and several runs in a table."""

import shutil
from pathlib import Path

import pytest
from scipy import stats

from tests.evaluation.making import shuffled
from workings.errors import RequestError
from workings.evaluation.comparison.several_runs import compare_seeds, rank, ranking_text


def runs(folder: Path, name: str, shares: list[float], count: int = 120) -> list[Path]:
    """One run a share of right answers."""
    return [shuffled(folder, f"{name}{number}", share, count, number) for number, share in enumerate(shares)]


def test_three_seeds_a_side_claim_something_about_the_method(tmp_path: Path) -> None:
    a, b = runs(tmp_path, "a", [0.4, 0.45, 0.5]), runs(tmp_path, "b", [0.8, 0.85, 0.8])
    found = compare_seeds(a, b)
    assert (found["verdict"], found["method_verdict"]) == ("better", "better")
    assert found["a"]["accuracies"] == [0.4, 0.45, 0.5]
    assert found["a"]["spread"] == pytest.approx(0.05)
    assert found["delta"] == pytest.approx(0.36667, abs=1e-4)
    assert found["method"] == "t"
    expected = stats.ttest_ind([0.8, 102 / 120, 0.8], [0.4, 0.45, 0.5], equal_var=False).confidence_interval(0.95)
    assert found["method_ci_low"] == pytest.approx(expected.low, abs=1e-9)
    assert found["method_ci_high"] == pytest.approx(expected.high, abs=1e-9)


def test_two_seeds_claim_nothing_about_the_method(tmp_path: Path) -> None:
    found = compare_seeds(runs(tmp_path, "a", [0.4, 0.45]), runs(tmp_path, "b", [0.9, 0.9, 0.9]))
    assert (found["verdict"], found["method_verdict"]) == ("better", "no claim")
    assert "method_ci_low" not in found
    assert found["sentence"].endswith("no claim about the method: 2 seeds on a side, 3 are needed.")


def test_one_run_several_times_is_no_seeds(tmp_path: Path) -> None:
    a, b = runs(tmp_path, "a", [0.4, 0.45, 0.5]), runs(tmp_path, "b", [0.8])
    shutil.copytree(b[0], tmp_path / "copied")
    for again in (b[0], tmp_path / "copied"):
        with pytest.raises(RequestError, match=r"(?s)on one side, are the same run.*with different seeds"):
            compare_seeds(a, [*b, again])


def test_seeds_that_scatter_leave_the_method_open(tmp_path: Path) -> None:
    """These runs differ beyond doubt, but so do the seeds of one recipe among themselves."""
    found = compare_seeds(runs(tmp_path, "a", [0.2, 0.5, 0.8]), runs(tmp_path, "b", [0.95, 0.6, 0.4]))
    assert found["verdict"] == "better"
    assert found["method_verdict"] == "inconclusive"


@pytest.mark.slow
def test_the_best_is_named_only_when_it_is(tmp_path: Path) -> None:
    clear = runs(tmp_path / "clear", "r", [0.9, 0.5, 0.4])
    ranking = rank([clear[1], clear[0], clear[2]])
    assert ranking["best"] == "r0"
    assert [row["accuracy"] for row in ranking["runs"]] == [0.9, 0.5, 0.4]
    assert "better than each of the other 2" in ranking["sentence"]
    close = rank(runs(tmp_path / "close", "r", [0.52, 0.5, 0.3]))
    assert "best" not in close
    assert "no best run is named" in ranking_text(close)


def test_runs_on_other_items_are_not_comparable(tmp_path: Path) -> None:
    (first,) = runs(tmp_path, "a", [0.5])
    (other,) = runs(tmp_path, "b", [0.5], count=60)
    with pytest.raises(RequestError, match="not comparable"):
        rank([first, other])
    with pytest.raises(RequestError, match="items differ"):
        compare_seeds([first], [other])
