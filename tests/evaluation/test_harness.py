"""Sample logs of lm-evaluation-harness.

``harness/samples_addition_*.jsonl`` were written by lm-evaluation-harness 0.4.13 (``log_samples``) for a local task of
40 additions with GSM8K's two filters, from canned texts: right and wrong after ``####``, with a dollar sign, in prose,
without an answer, empty.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.making import records, summary, write_lines
from workings.errors import RequestError
from workings.evaluation.comparison.baseline import set_baseline
from workings.evaluation.comparison.compare import compare
from workings.evaluation.comparison.gate import gate
from workings.evaluation.harness import HarnessLog, import_harness_log
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.unit import find_unit

LOGS = [Path(__file__).parent / "harness" / f"samples_addition_{number}.jsonl" for number in (1, 2)]


def theirs(path: Path, filter_name: str) -> dict[str, float]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {f"doc-{line['doc_id']}": line["exact_match"] for line in lines if line["filter"] == filter_name}


@pytest.mark.parametrize("filter_name", ["strict-match", "flexible-extract"])
def test_their_scores_are_kept(tmp_path: Path, filter_name: str) -> None:
    card = import_harness_log(LOGS[0], tmp_path / "out", filter_name=filter_name)
    expected = theirs(LOGS[0], filter_name)
    assert card.overall.n == 40
    assert card.accuracy == pytest.approx(sum(expected.values()) / 40)
    assert {record["id"]: record["score"] for record in records(tmp_path / "out")} == expected
    assert summary(tmp_path / "out")["rules"] == {f"harness:{filter_name}": 40}


def test_our_scores_of_the_same_texts_agree_item_by_item(tmp_path: Path) -> None:
    for log in LOGS:
        pairs = HarnessLog.open(log, filter_name="flexible-extract").predictions()
        file = write_lines(tmp_path / "p.jsonl", [{"id": item.id, "completion": text} for item, text in pairs])
        evaluate_predictions(file, [item for item, _ in pairs], tmp_path / log.stem)
        ours = {record["id"]: record["score"] for record in records(tmp_path / log.stem)}
        assert ours == theirs(log, "flexible-extract")


def test_imported_logs_are_compared_and_gated(tmp_path: Path) -> None:
    for log in LOGS:
        import_harness_log(log, tmp_path / log.stem, filter_name="strict-match")
    a, b = (tmp_path / log.stem for log in LOGS)
    found = compare(a, b)
    scores = [theirs(log, "strict-match") for log in LOGS]
    assert found.to_json()["delta"] == pytest.approx(sum(scores[1].values()) / 40 - sum(scores[0].values()) / 40)
    assert "scorer version is not recorded for both" in found.notes
    set_baseline(tmp_path / "baselines", "main", find_unit(a))
    result = gate(a, baseline="main", folder=tmp_path / "baselines", metric="accuracy", max_drop=0.2)
    assert (result.verdict, result.change) == ("pass", 0)
    import_harness_log(LOGS[1], tmp_path / "other", filter_name="flexible-extract")
    assert compare(a, tmp_path / "other").verdict == "not comparable"


def test_what_is_not_chosen_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="one of strict-match, flexible-extract"):
        HarnessLog.open(LOGS[0])
    with pytest.raises(RequestError, match="metric f1"):
        HarnessLog.open(LOGS[0], filter_name="strict-match", metric="f1")
    with pytest.raises(RequestError, match="not a sample of lm-evaluation-harness"):
        HarnessLog.open(write_lines(tmp_path / "x.jsonl", [{"id": "a", "completion": "b"}]))
    with pytest.raises(RequestError, match="gone"):
        HarnessLog.open(tmp_path / "gone.jsonl")


def sample(number: int, **more: Any) -> dict[str, Any]:
    return {"doc_id": number, "target": "1", "arguments": {"gen_args_0": {"arg_0": "p", "arg_1": " yes"}},
            "resps": [[[-1.5, True]]], "filtered_resps": [[-1.5, True]], "filter": "none", "metrics": ["acc"],
            "acc": 1.0, **more}


def test_multiple_choice_and_odd_values(tmp_path: Path) -> None:
    file = write_lines(tmp_path / "s.jsonl", [sample(0), sample(1, acc=0.0), sample(2, acc=float("nan"))])
    card = import_harness_log(file, tmp_path / "out")
    assert (card.overall.n, card.overall.correct, card.overall.errors) == (3, 1, 1)
    first, _, third = records(tmp_path / "out")
    assert first["completion"] == {"absent": "no text: log likelihoods"}
    assert "error" not in first
    assert third["error"] == "its score is nan, not a number from 0 to 1"
    doubled = write_lines(tmp_path / "d.jsonl", [sample(0), sample(0)])
    with pytest.raises(RequestError, match="document 0 comes twice"):
        import_harness_log(doubled, tmp_path / "out2")
