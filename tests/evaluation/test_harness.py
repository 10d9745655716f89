"""Samples of lm-evaluation-harness that an evaluation records with the harness's scores."""

from pathlib import Path
from typing import Any

from tests.evaluation.making import records
from workings.evaluation.harness import AnsweredTask, scored_answer, seal_task
from workings.evidence.verify import verify


def sample(number: int, **more: Any) -> dict[str, Any]:
    return {"doc_id": number, "target": "1", "arguments": [("p", " yes")], "section": "sums",
            "resps": [[[-1.5, True]]], "filtered_resps": [[-1.5, True]], "filter": "none", "metrics": ["acc"],
            "acc": 1.0, "doc_hash": "d", "prompt_hash": "p", "target_hash": "t", **more}


def test_multiple_choice_and_odd_values(tmp_path: Path) -> None:
    answers = [scored_answer(each, "acc", "here") for each in (
        sample(0), sample(1, acc=0.0), sample(2, acc=float("nan")))]
    unknown = {"absent": "not recorded"}
    answered = AnsweredTask(
        answers=answers, scorer={"name": "lm-evaluation-harness acc, filter none", "version": "1"},
        source={"kind": "task"}, decoding=unknown, rule="harness:none")
    card = seal_task(answered, tmp_path / "out", made_from=None, facts={
        "template": unknown, "tokenizer": unknown, "model": unknown, "engine": {"name": "jax"}})
    assert (card.overall.n, card.overall.correct, card.overall.errors) == (3, 1, 1)
    first, _, third = records(tmp_path / "out")
    assert first["completion"] == {"absent": "no text: log likelihoods"}
    assert "error" not in first
    assert third["error"] == "its score is nan, not a number from 0 to 1"
    found = verify(tmp_path / "out")
    assert [one.text for one in found.checks if one.verdict == "failed"] == []
    assert {one.id: str(one.verdict) for one in found.checks if one.level == 2} == {
        "recompute.items": "passed", "recompute.scores": "not_checked", "recompute.scorecard": "passed"}
