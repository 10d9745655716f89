"""Choosing again among samples that were drawn: what another rule keeps, and units that are no results."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.samples.making import DIGEST, draw, drawing_model
from workings.cli.main import app
from workings.errors import RecordError, RequestError
from workings.evaluation.comparison.compare import compare
from workings.evaluation.comparison.gate import gate, set_baseline
from workings.evaluation.unit import EvaluationRecord
from workings.evidence.verify import verify
from workings.record.layout import partial_unit_path
from workings.samples.pairs import PairRule
from workings.samples.reselect import reselect
from workings.samples.selection import Selection


def files(unit: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(unit.iterdir())}


def test_other_rules_give_the_unit_that_drawing_by_them_gives(tmp_path: Path) -> None:
    rules, pairs = Selection(keep="best", most_per_prompt=1), PairRule(rule="right-wrong")
    first = draw(tmp_path / "first").path
    before = files(first)
    found = reselect(first, tmp_path / "new" / "second", rules, pairs)
    expected = draw(tmp_path / "third", session=drawing_model(), selection=rules, pairs=pairs)
    assert files(found.path) == files(expected.path)
    assert files(first) == before
    assert found.kept != first
    assert verify(found.path).failed == 0
    # And back again, without the pairs.
    assert files(reselect(found.path, tmp_path / "back", Selection()).path) == before
    assert json.loads(before["SEAL.json"])["made_from"] == DIGEST


def test_the_command_says_what_was_kept(tmp_path: Path) -> None:
    unit = draw(tmp_path / "unit").path
    words = ["data", "select", unit, "--keep", "all", "--most", "2", "--pairs", "best-worst", "--out", tmp_path / "all"]
    done = CliRunner().invoke(app, [*map(str, words), "--json"])
    said = json.loads(done.stdout)
    assert (said["samples"], said["kept"]) == (32, len((tmp_path / "all" / "kept.jsonl").read_bytes().splitlines()))
    assert said["pairs"] > 0


def test_what_is_no_unit_of_samples_or_was_changed_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    unit = draw(tmp_path / "unit").path
    with pytest.raises(RequestError, match="already exists"):
        reselect(unit, unit, Selection())
    with pytest.raises(RequestError, match="workings sample --out"):
        reselect(tmp_path, tmp_path / "out", Selection())
    (unit / "eval_summary.json").write_text("{}")
    with pytest.raises(RecordError, match="not the file that was sealed"):
        reselect(unit, tmp_path / "out", Selection())
    assert [path.name for path in tmp_path.iterdir()] == ["unit"]


def test_what_an_interrupted_sampling_drew_is_not_taken_away(tmp_path: Path) -> None:
    first = draw(tmp_path / "first").path
    unfinished = partial_unit_path(tmp_path / "second")
    unfinished.mkdir()
    (unfinished / "predictions.jsonl").write_text("drawn")
    with pytest.raises(RequestError, match="has an unfinished"):
        reselect(first, tmp_path / "second", Selection())
    assert (unfinished / "predictions.jsonl").read_text() == "drawn"


def test_samples_are_neither_compared_nor_gated(tmp_path: Path) -> None:
    unit = draw(tmp_path / "unit").path
    set_baseline(tmp_path / "baselines", "good", EvaluationRecord(unit))
    with pytest.raises(RequestError, match="has samples to learn from"):
        compare(unit, unit)
    with pytest.raises(RequestError, match="has samples to learn from"):
        gate(unit, baseline="good", folder=tmp_path / "baselines", max_drop=0)
