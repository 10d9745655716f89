"""Gates: pass, fail or open."""

from pathlib import Path

import pytest

from tests.evaluation.making import items, score, shuffled
from workings.errors import RequestError
from workings.evaluation.comparison.gate import gate


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluation with 80 % right answers to 200 items."""
    return shuffled(tmp_path_factory.mktemp("base"), "base", 0.8)


@pytest.mark.parametrize(("share", "max_drop", "verdict"), [
    (0.8, 0.05, "pass"), (0.95, 0.0, "pass"), (0.4, 0.05, "fail"), (0.77, 0.02, "inconclusive")])
def test_verdicts(base: Path, tmp_path: Path, share: float, max_drop: float, verdict: str) -> None:
    found = gate(base, shuffled(tmp_path, "new", share), max_drop=max_drop)
    assert found["verdict"] == verdict
    assert found["sentence"].startswith(f"{verdict}: accuracy of new changed by {share - 0.8:+.4f} against base")


def test_the_decision_is_the_interval_against_the_allowed_drop(base: Path, tmp_path: Path) -> None:
    new = shuffled(tmp_path, "new", 0.75, seed=1)
    open_result = gate(base, new, max_drop=0.02)
    low = open_result["change_ci_low"]
    assert open_result["verdict"] == "inconclusive"
    assert gate(base, new, max_drop=-low + 1e-6)["verdict"] == "pass"
    assert gate(base, new, max_drop=-low - 1e-6)["verdict"] == "inconclusive"


def test_wrong_requests_are_named(base: Path, tmp_path: Path) -> None:
    for b, max_drop, said in ((base, -1.0, "-1"), (shuffled(tmp_path, "other", 0.8, count=50), 0.1, "items differ"),
                              (score(tmp_path, "exact", items(200), [True] * 200, scorer="exact"), 0.1, "scorer")):
        with pytest.raises(RequestError, match=said):
            gate(base, b, max_drop=max_drop)
