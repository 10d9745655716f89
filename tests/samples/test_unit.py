"""A unit of samples: what it holds, what a killed one does when it is continued, and choosing again by other rules."""

import json
from pathlib import Path

import pytest

from tests.evaluation.making import records, score_here
from tests.samples.making import DIGEST, draw, drawing_model, kinds
from workings.data.preferences import read_pairs
from workings.data.traces import completion_text, read_traces
from workings.errors import RecordError, RequestError
from workings.evaluation.comparison.compare import compare
from workings.evaluation.comparison.gate import gate, set_baseline
from workings.evaluation.run import sample_seed
from workings.evaluation.unit import EvaluationRecord
from workings.evidence.verify import verify
from workings.record.seal import parse_seal
from workings.samples.draw import reselect
from workings.samples.selection import PairRule, Selection
from workings.samples.unit import SampleUnit


@pytest.fixture(autouse=True)
def scoring(monkeypatch: pytest.MonkeyPatch) -> None:
    score_here(monkeypatch)


def test_a_unit_is_an_evaluation_and_what_was_kept_of_it(tmp_path: Path) -> None:
    unit = draw(tmp_path / "out", pairs=PairRule(rule="right-wrong"))
    assert sorted(path.name for path in unit.path.iterdir()) == [
        "SEAL.json", "SHA256SUMS", "eval_config.json", "eval_summary.json", "kept.jsonl", "pairs.jsonl",
        "predictions.jsonl", "selection.json"]
    seal = parse_seal((unit.path / "SEAL.json").read_bytes())
    assert (seal["unit"], seal["made_from"], seal["root"]) == ("samples", DIGEST, unit.root)
    sampled = {f"i{n}": kinds(f"i{n}", 4) for n in range(8)}
    lines = records(unit.path)
    assert [(line["id"], line["sample"], line["seed"]) for line in lines] == [
        (name, number, sample_seed(0, name, number)) for name in sampled for number in range(4)]
    assert len({line["seed"] for line in lines if 0 <= line["seed"] < 2**32}) == 32
    # Kinds 0, 1 and 3 are right and 0 and 1 have the form, each once a prompt.
    expected = [f"{name}/{number}" for name, found in sampled.items() for number, kind in enumerate(found)
                if kind in (0, 1) and kind not in found[:number]]
    assert [trace.id for trace in unit.kept] == expected
    texts = {f"{line['id']}/{line['sample']}": line["completion"] for line in lines}
    assert all(completion_text(trace, "tags") == texts[trace.id] for trace in read_traces(unit.path / "kept.jsonl"))
    assert unit.kept[0].source == f"samples of adder {DIGEST[:16]}"
    counts = unit.counts
    assert (counts.prompts, counts.samples, counts.kept) == (8, 32, len(expected))
    assert counts.never == sum(set(found) == {2} for found in sampled.values())
    assert counts.always == sum(2 not in found for found in sampled.values())
    assert counts.left_out["wrong"] == sum(found.count(2) for found in sampled.values())
    assert counts.left_out["another form"] == sum(found.count(3) for found in sampled.values())
    with_both = [name for name, found in sampled.items() if 2 in found and {0, 1} & set(found)]
    assert [pair.id.partition("/")[0] for pair in read_pairs(unit.path / "pairs.jsonl")] == with_both
    assert unit.pairs[0].metadata["chosen_score"] == 1


def test_a_unit_verifies_by_itself(tmp_path: Path) -> None:
    draw(tmp_path / "out", selection=Selection(keep="all"), pairs=PairRule(most_per_prompt=2))
    found = verify(tmp_path / "out")
    assert ([f"{one.id}: {one.text}" for one in found.checks if one.verdict == "failed"], found.level) == ([], 2)
    assert {"consistency.answers", "recompute.selection", "recompute.scores"} <= {
        one.id for one in found.checks if one.verdict == "passed"}


def test_greedy_samples_have_no_seed(tmp_path: Path) -> None:
    unit = draw(tmp_path / "out", samples=1, temperature=0.0)
    assert not any("seed" in line for line in records(unit.path))
    assert unit.kept[0].metadata == {"sample": 0, "score": 1, "drawn_from": DIGEST}
    assert verify(unit.path).failed == 0


def test_what_is_kept_may_be_decided_anew_when_it_is_continued(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        draw(tmp_path / "out", session=drawing_model(die_at_call=3), pairs=PairRule())
    unit = draw(tmp_path / "out", selection=Selection(keep="all"))
    assert json.loads((unit.path / "selection.json").read_bytes())["selection"]["keep"] == "all"
    assert (unit.pairs, (unit.path / "pairs.jsonl").exists()) == ((), False)


def test_more_samples_than_fit_are_drawn_in_several_calls(tmp_path: Path) -> None:
    session = drawing_model()
    whole = draw(tmp_path / "whole", samples=6, batch_size=64)
    split = draw(tmp_path / "split", session=session, samples=6, batch_size=4)
    assert [len(call["seeds"]) for call in session.engine.calls] == [4, 2] * 8
    assert (split.path / "kept.jsonl").read_bytes() == (whole.path / "kept.jsonl").read_bytes()


def test_what_cannot_be_kept_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    session = drawing_model()
    with pytest.raises(RequestError, match="in the form any"):
        draw(tmp_path / "out", session=session, form="any")
    assert session.engine.calls == []
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(RequestError, match="workings data sample --out"):
        SampleUnit.open(tmp_path)


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


def test_what_is_no_unit_of_samples_or_was_changed_is_refused_and_leaves_nothing(tmp_path: Path) -> None:
    unit = draw(tmp_path / "unit").path
    with pytest.raises(RequestError, match="already exists"):
        reselect(unit, unit, Selection())
    with pytest.raises(RequestError, match="workings data sample --out"):
        reselect(tmp_path, tmp_path / "out", Selection())
    (unit / "eval_summary.json").write_text("{}")
    with pytest.raises(RecordError, match="not the file that was sealed"):
        reselect(unit, tmp_path / "out", Selection())
    assert [path.name for path in tmp_path.iterdir()] == ["unit"]


def test_samples_are_neither_compared_nor_gated(tmp_path: Path) -> None:
    unit = draw(tmp_path / "unit").path
    set_baseline(tmp_path / "baselines", "good", EvaluationRecord(unit))
    with pytest.raises(RequestError, match="has samples to learn from"):
        compare(unit, unit)
    with pytest.raises(RequestError, match="has samples to learn from"):
        gate(unit, baseline="good", folder=tmp_path / "baselines", max_drop=0)
