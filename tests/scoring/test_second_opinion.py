"""math-verify beside our own scoring: disagreements are listed, and its failures are not ours."""

from pathlib import Path

import pytest

from tests.evaluation.making import records, summary, write_lines
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.settings import EvaluationSettings
from workings.scoring.items import Item

pytest.importorskip("math_verify", reason="the extra `score` is not installed")


@pytest.mark.slow
def test_disagreements_are_listed_and_limits_hold(tmp_path: Path) -> None:
    cases = [("half", "1/2", "\\frac{1}{2}", 1, "right"), ("power", "1024", "2^{10}", 0, "right"),
             ("plain", "72", "72", 1, "right"), ("wrong", "72", "73", 0, "wrong"),
             ("tower", "5", "10**10**10", 0, "undecided"), ("after", "7", "7", 1, "right"),
             ("text", "the Eiffel Tower", "eiffel tower", 1, "wrong")]
    items = [Item(id=name, prompt="p", expected_answer=gold) for name, gold, _, _, _ in cases]
    file = write_lines(tmp_path / "p.jsonl", [
        {"id": name, "completion": f"<answer>{text}</answer>"} for name, _, text, _, _ in cases])
    evaluate_predictions(file, items, tmp_path / "out",
                         settings=EvaluationSettings(second_opinion="math_verify", item_seconds=4.0))
    found = {record["id"]: (record["score"], record["second_opinion"]) for record in records(tmp_path / "out")}
    assert found == {name: (score, opinion) for name, _, _, score, opinion in cases}
    assert all("error" not in record for record in records(tmp_path / "out"))
    opinion = summary(tmp_path / "out")["second_opinion"]
    assert (opinion["judged"], opinion["undecided"], opinion["disagreements"]) == (7, 1, 2)
    assert opinion["first"] == ["power", "text"]
