"""Scorers and rewards from a file that are broken: each is an error in words, and nothing that it did counts."""

from pathlib import Path

import pytest

from tests.evaluation.making import write_lines
from workings.errors import RequestError
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.settings import EvaluationSettings
from workings.scoring.items import Item
from workings.scoring.settings import ScoringSettings
from workings.scoring.worker_pool import ScoringProcess

pytestmark = pytest.mark.children
ITEM = Item(id="a", prompt="1+1?", expected_answer="2")
SHOUT = """
import os
def everywhere(data):
    for descriptor in range(3, 64):
        try:
            os.write(descriptor, data)
        except OSError:
            pass
"""
"""Writes where nothing of a user's belongs: into every descriptor that is open."""


def own(folder: Path, code: str) -> str:
    """A scorer of this code."""
    (folder / "own.py").write_text(code)
    return f"{folder / 'own.py'}:score"


@pytest.mark.parametrize(("code", "said"), [
    ("def score(answer, item:\n    return 1\n", "SyntaxError"),
    ("raise SystemExit(3)\n", "SystemExit: 3"),
    ("score = 1\n", "own.py has no function score"),
    (SHOUT + "everywhere(b'hello\\n')\ndef score(answer, item): return 1\n", "an error is above"),
])
def test_a_scorer_that_cannot_be_loaded_is_named_at_the_start(tmp_path: Path, code: str, said: str) -> None:
    scorer = own(tmp_path, code)
    with pytest.raises(RequestError) as caught, ScoringProcess(ScoringSettings(scorer=scorer)):
        pass
    assert said in str(caught.value)
    assert "own.py" in caught.value.given


BODIES = {
    "return 1": "", "raise SystemExit(0)": "SystemExit", "raise KeyboardInterrupt": "KeyboardInterrupt",
    "raise type('Own', (BaseException,), {})('no')": "Own: no", "return None": "returned None",
    "return float('nan')": "returned nan", "return '1'": "returned 1", "return 2": "returned 2",
    "everywhere(b'[\"\", {\"score\": 1.0}]\\n'); return 1": "wrote where its answers go",
    "everywhere(b'[' * 100000 + b'\\n'); return 1": "wrote where its answers go",
    "everywhere(b'\\xff\\xfe\\n'); return 1": "wrote where its answers go",
    "os.kill(os.getpid(), 9)": "died (signal 9)", "return 1 ": ""}
"""What a scorer does to one item -> the error of that item."""


def test_what_a_scorer_does_to_one_item_is_that_items_error(tmp_path: Path) -> None:
    cases = "".join(f"    if item.id == '{number}': {body}\n" for number, body in enumerate(BODIES))
    scorer = own(tmp_path, f"{SHOUT}\ndef score(answer, item):\n{cases}")
    items = [Item(id=str(number), prompt="1+1?", expected_answer="2") for number in range(len(BODIES))]
    with ScoringProcess(ScoringSettings(scorer=scorer)) as scoring:
        judged = scoring.judge([(item, "#### 2", False) for item in items])
    for (body, said), judgement in zip(BODIES.items(), judged, strict=True):
        assert judgement.score == (said == ""), body
        assert said in judgement.error, body


def test_a_scorer_that_was_mended_is_used_under_the_same_name(tmp_path: Path) -> None:
    said = write_lines(tmp_path / "said.jsonl", [{"id": "a", "completion": "#### 2"}])
    settings = EvaluationSettings(scorer=own(tmp_path, "def score(:\n"))
    with pytest.raises(RequestError, match="SyntaxError"):
        evaluate_predictions(said, [ITEM], tmp_path / "out", settings=settings)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["own.py", "said.jsonl"]
    own(tmp_path, "def score(answer, item): return float(answer == '2')\n")
    assert evaluate_predictions(said, [ITEM], tmp_path / "out", settings=settings).overall.mean == 1
