"""math-verify next to our own scoring: disagreements are listed, and its failures are not ours."""

from pathlib import Path

import pytest

from tests.evaluation.making import records, summary, write_lines
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.settings import EvaluationSettings
from workings.scoring.items import Item
from workings.scoring.settings import ScoringSettings
from workings.scoring.worker_pool import ScoringProcess


@pytest.mark.slow
def test_disagreements_are_listed(tmp_path: Path) -> None:
    pytest.importorskip("math_verify", reason="the extra `score` is not installed")
    cases = [("half", "1/2", "\\frac{1}{2}", 1, "right"), ("power", "1024", "2^{10}", 0, "right"),
             ("plain", "72", "72", 1, "right"), ("wrong", "72", "73", 0, "wrong"),
             ("text", "the Eiffel Tower", "eiffel tower", 1, "wrong")]
    items = [Item(id=name, prompt="p", expected_answer=gold) for name, gold, _, _, _ in cases]
    file = write_lines(tmp_path / "p.jsonl", [
        {"id": name, "completion": f"<answer>{text}</answer>"} for name, _, text, _, _ in cases])
    evaluate_predictions(file, items, tmp_path / "out",
                         settings=EvaluationSettings(second_opinion="math_verify"))
    found = {record["id"]: (record["score"], record["second_opinion"]) for record in records(tmp_path / "out")}
    assert found == {name: (score, opinion) for name, _, _, score, opinion in cases}
    assert all("error" not in record for record in records(tmp_path / "out"))
    opinion = summary(tmp_path / "out")["second_opinion"]
    assert (opinion["judged"], opinion["undecided"], opinion["disagreements"]) == (5, 0, 2)
    assert opinion["first"] == ["power", "text"]


HANGS = """
import time
def parse(text, parsing_timeout):
    time.sleep(60 if "10**10**10" in text else 0)
    return text.strip("$")
def verify(one, other, timeout_seconds):
    return one == other
"""


def test_one_that_hangs_leaves_the_score_as_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a library of the same name that sleeps: what math-verify calculates for ever costs processor time."""
    (tmp_path / "math_verify.py").write_text(HANGS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    completions = [(Item(id=text, prompt="p", expected_answer=expected), f"<answer>{text}</answer>", False)
                   for text, expected in (("72", "72"), ("10**10**10", "10**10**10"), ("7", "7"))]
    with ScoringProcess(ScoringSettings(second_opinion="math_verify", item_seconds=1.0)) as scoring:
        judged = scoring.judge(completions)
    assert [(each.score, each.second_opinion, each.error) for each in judged] == [
        (1, "right", ""), (1, "undecided", ""), (1, "right", "")]
