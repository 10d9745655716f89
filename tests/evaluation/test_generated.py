"""Asking a model: batches, records, and an evaluation that is killed and continued."""

import json
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import adding_model
from tests.evaluation.making import items, records, summary
from workings.engines.session import ModelSession
from workings.errors import RequestError
from workings.evaluation.run import evaluate
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings
from workings.record.seal import parse_seal
from workings.scoring.items import Item, item_from_json


def ask(fake: ModelSession, asked: list[Item], out: Path, **settings: Any) -> Scorecard:
    return evaluate(fake, asked, out, made_from="a" * 64,
                    settings=EvaluationSettings(**{"batch_size": 4, "form": "tags", **settings}))


def test_a_unit_holds_all_that_happened(tmp_path: Path) -> None:
    fake = adding_model()
    scorecard = ask(fake, items(10), tmp_path / "eval" / "items")
    unit = tmp_path / "eval" / "items"
    # Wrong: 0, 4 and 8; all their steps are right.
    assert (scorecard.overall.n, scorecard.overall.correct, scorecard.overall.errors) == (10, 7, 0)
    assert scorecard.accuracy == 0.7
    assert {name: (cell.n, cell.correct) for name, cell in scorecard.per_section.items()} == {
        "core": (5, 2), "edge": (5, 5)}
    assert [len(call["prompts"]) for call in fake.engine.calls] == [4, 4, 2]
    assert fake.engine.calls[0]["stop_ids"] == [0]
    assert sorted(path.name for path in unit.iterdir()) == [
        "SEAL.json", "SHA256SUMS", "eval_config.json", "eval_summary.json", "predictions.jsonl"]
    assert subprocess.run(["sha256sum", "--strict", "-c", "SHA256SUMS"], cwd=unit, capture_output=True).returncode == 0
    assert parse_seal((unit / "SEAL.json").read_bytes())["made_from"] == "a" * 64
    line = records(unit)[1]
    assert line["completion"] == "<reasoning>1+7=8</reasoning><answer>8</answer>"
    assert (line["extracted"], line["rule"], line["gold"], line["score"]) == ("8", "answer_tag", "8", 1)
    assert (line["finish_reason"], line["completion_tokens"], line["truncated"]) == ("stop", 46, False)
    assert (line["steps_checked"], line["steps_valid"], line["format_ok"]) == (1, 1, True)
    config = json.loads((unit / "eval_config.json").read_text())
    assert config["decoding"]["max_new_tokens"] == 256
    assert config["engine"]["name"] == "adding"
    behaviour = summary(unit)["behaviour"]
    assert behaviour["format_ok"]["mean"] == 1
    assert behaviour["step_validity"]["mean"] == 1
    assert summary(unit)["rules"] == {"answer_tag": 10}


def test_earlier_turns_of_an_item_are_asked_with_it_and_recorded(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Add. "}, {"role": "assistant", "content": "Yes. "}]
    fake, asked = adding_model(), {"id": "a", "prompt": "What is 1+7?", "expected_answer": "8", "history": turns}
    ask(fake, [item_from_json(asked)], tmp_path / "out")
    assert fake.engine.calls[0]["prompts"] == ["Add. Yes. What is 1+7?"]
    line = records(tmp_path / "out")[0]
    assert (line["score"], json.loads(line["item_extra"])) == (1, {"history": turns})


def test_truncation_is_counted(tmp_path: Path) -> None:
    ask(adding_model(), items(5), tmp_path / "out", max_new_tokens=20)
    found = summary(tmp_path / "out")
    assert found["behaviour"]["truncated"]["mean"] == 1
    assert found["behaviour"]["format_ok"]["mean"] == 0
    assert records(tmp_path / "out")[0]["finish_reason"] == "length"


@pytest.mark.parametrize("cut", [0, 1, 200])
def test_a_killed_evaluation_ends_the_same(tmp_path: Path, cut: int) -> None:
    ask(adding_model(), items(10), tmp_path / "whole")
    dying = adding_model(die_at_call=2)
    with pytest.raises(KeyboardInterrupt):
        ask(dying, items(10), tmp_path / "killed")
    partial = tmp_path / "killed.partial" / "predictions.jsonl"
    if cut:  # the machine stopped in the middle of a line
        partial.write_bytes(partial.read_bytes()[:-cut])
    assert not (tmp_path / "killed").exists()
    again = adding_model()
    ask(again, items(10), tmp_path / "killed")
    # A batch that was not complete is asked again as a whole.
    assert len(again.engine.calls) == (1 if cut == 0 else 2)
    assert not partial.parent.exists()
    for name in ("predictions.jsonl", "eval_summary.json", "eval_config.json", "SHA256SUMS"):
        assert (tmp_path / "killed" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()


def test_a_slow_model_is_asked_few_items_at_a_time_and_a_stop_keeps_their_answers(tmp_path: Path) -> None:
    slow = replace(adding_model(die_at_call=1), tokens_at_a_time=320)
    with pytest.raises(KeyboardInterrupt):
        ask(slow, items(10), tmp_path / "out", batch_size=64, max_new_tokens=64)
    assert len((tmp_path / "out.partial" / "predictions.jsonl").read_text().splitlines()) == 5
    again = replace(adding_model(), tokens_at_a_time=320)
    ask(again, items(10), tmp_path / "out", batch_size=64, max_new_tokens=64)
    assert [len(call["prompts"]) for call in again.engine.calls] == [5]
    config = json.loads((tmp_path / "out" / "eval_config.json").read_text())
    assert (config["decoding"]["batch_size"], config["items_at_a_time"]) == (64, 5)


def test_an_evaluation_is_never_overwritten_and_never_empty(tmp_path: Path) -> None:
    ask(adding_model(), items(3), tmp_path / "out")
    before = (tmp_path / "out" / "SHA256SUMS").read_bytes()
    with pytest.raises(RequestError, match="exists"):
        ask(adding_model(), items(3), tmp_path / "out")
    assert (tmp_path / "out" / "SHA256SUMS").read_bytes() == before
    with pytest.raises(RequestError, match="there are no items"):
        ask(adding_model(), [], tmp_path / "other")
    assert not (tmp_path / "other.partial").exists()
