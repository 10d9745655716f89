"""The example that teaches five facts, as its page types it."""

import json

from proof import teach_it_yourself

EXAMPLE = teach_it_yourself.RECIPE.parent


def test_only_taught_questions_are_in_both_files() -> None:
    rows = {name: list(map(json.loads, (EXAMPLE / f"{name}.jsonl").read_text("utf-8").splitlines()))
            for name in ("facts", "questions")}
    facts = {row["prompt"] for row in rows["facts"]}
    asked = [(item["section"], item["prompt"]) for item in rows["questions"]]
    assert {section for section, _ in asked} == set(teach_it_yourself.SECTIONS)
    assert all((prompt in facts) is (section == "taught") for section, prompt in asked)
