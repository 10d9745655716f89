"""Asking a run: questions that it was trained on are kept apart from it."""

import json
from pathlib import Path

import pytest

from workings.data.rows import prompt_digest
from workings.errors import RequestError
from workings.runs.evaluate import find_trained_items
from workings.scoring.items import Item


def test_questions_that_a_run_learned_are_not_evaluated_in_it(tmp_path: Path) -> None:
    run = tmp_path / "run"
    (run / "data").mkdir(parents=True)
    learned = Item(id="seen", prompt="What is  1+1?", expected_answer="2")
    other = Item(id="new", prompt="What is 2+2?", expected_answer="4")
    row = {"id": "t", "prompt_digest": prompt_digest("what is 1+1?"), "earlier_prompt_digests": [prompt_digest("Hi")]}
    dropped = {"id": "u", "status": "dropped", "prompt_digest": prompt_digest(other.prompt)}
    (run / "data/rows.jsonl").write_text(json.dumps(row) + "\n" + json.dumps(dropped) + "\n")
    with pytest.raises(RequestError, match=r"was trained on 1 of 2 items, such as seen"):
        find_trained_items(run, [learned, other], run / "eval" / "items")
    assert find_trained_items(run, [other], run / "eval" / "items") == []
    assert find_trained_items(run, [learned, other], tmp_path / "elsewhere") == ["seen"]
    assert find_trained_items(tmp_path / "weights of someone", [learned], tmp_path / "elsewhere") == []
