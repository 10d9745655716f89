"""Baselines and gates: pass, fail or open, with the n that would settle it."""

import json
from pathlib import Path

import pytest

from tests.evaluation.making import items, score, shuffled
from workings.errors import RecordError, RequestError
from workings.evaluation.comparison.gate import gate, read_baseline, set_baseline
from workings.evaluation.unit import find_unit


def keep(folder: Path, share: float = 0.8) -> Path:
    set_baseline(folder / "baselines", "main", find_unit(shuffled(folder, "base", share)))
    return folder / "baselines"


@pytest.mark.parametrize(("share", "max_drop", "verdict"), [
    (0.8, 0.05, "pass"), (0.95, 0.0, "pass"), (0.4, 0.05, "fail"), (0.77, 0.02, "inconclusive")])
def test_verdicts(tmp_path: Path, share: float, max_drop: float, verdict: str) -> None:
    folder = keep(tmp_path)
    found = gate(shuffled(tmp_path, "new", share), baseline="main", folder=folder, max_drop=max_drop)
    assert found["verdict"] == verdict
    assert found["sentence"].startswith(f"{verdict}: accuracy of new changed by {share - 0.8:+.4f}")
    assert ("items_needed" in found) == (verdict == "inconclusive")


def test_the_decision_is_the_interval_against_the_allowed_drop(tmp_path: Path) -> None:
    folder, new = keep(tmp_path), shuffled(tmp_path, "new", 0.75, seed=1)
    open_result = gate(new, baseline="main", folder=folder, max_drop=0.02)
    low, high = open_result["change_ci_low"], open_result["change_ci_high"]
    assert open_result["verdict"] == "inconclusive"
    assert gate(new, baseline="main", folder=folder, max_drop=-low + 1e-6)["verdict"] == "pass"
    assert gate(new, baseline="main", folder=folder, max_drop=-low - 1e-6)["verdict"] == "inconclusive"
    assert high > -0.02
    # At the n it names, an interval of this width just reaches: n * (z * error / |change + drop|) ** 2.
    assert open_result["items_needed"] > 200


def test_wrong_requests_are_named(tmp_path: Path) -> None:
    folder, new = keep(tmp_path), shuffled(tmp_path, "new", 0.8)
    for given, text in (({"baseline": "gone"}, "gone"), ({"max_drop": -1.0}, "-1"),
                        ({"baseline": "../x"}, "letters")):
        with pytest.raises(RequestError, match=text):
            gate(new, **{"baseline": "main", "folder": folder, "max_drop": 0.1, **given})
    with pytest.raises(RequestError, match="1 for other items"):
        gate(shuffled(tmp_path, "other", 0.8, count=50), baseline="main", folder=folder, max_drop=0.1)
    with pytest.raises(RequestError, match="scorer"):
        gate(score(tmp_path, "exact", items(200), [True] * 200, scorer="exact"), baseline="main", folder=folder,
             max_drop=0.1)


def test_a_baseline_stands_by_itself(tmp_path: Path) -> None:
    folder = keep(tmp_path, 0.5)
    (path,) = folder.glob("main/*.json")
    assert "What is" not in path.read_text()
    unit = find_unit(tmp_path / "base")
    assert read_baseline(folder, "main", unit.items_digest)[1] == unit.results()
    path.write_text(json.dumps({"schema": "baseline/9"}))
    with pytest.raises(RecordError, match="not a baseline"):
        read_baseline(folder, "main", unit.items_digest)
