"""Small items and predictions for tests of the evaluation."""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.evidence.walk import ScoringHere
from workings.evaluation import run
from workings.evaluation.run import evaluate_predictions
from workings.evaluation.scorecard import ItemResult
from workings.evaluation.settings import EvaluationSettings
from workings.scoring.items import Item
from workings.scoring.judge_endpoint import scoring_by


def items(count: int, **more: Any) -> list[Item]:
    """Additions of two numbers, two sections in turn."""
    return [Item(id=f"i{n}", prompt=f"What is {n}+7?", expected_answer=str(n + 7), section=("core", "edge")[n % 2],
                 category="addition", difficulty=f"{n % 3} carries", **more) for n in range(count)]


def write_lines(path: Path, records: Iterable[Mapping[str, Any]]) -> Path:
    """JSON lines."""
    path.write_text("".join(json.dumps(record) + "\n" for record in records), encoding="utf-8")
    return path


def completions(asked: Sequence[Item], right: Sequence[bool]) -> list[dict[str, str]]:
    """A right or a wrong answer per item, with its steps."""
    return [{"id": item.id, "completion": f"so it is\n#### {item.expected_answer if good else '-1'}"}
            for item, good in zip(asked, right, strict=True)]


def score(folder: Path, name: str, asked: Sequence[Item], right: Sequence[bool], **settings: Any) -> Path:
    """A sealed evaluation in which the items named are right."""
    folder.mkdir(parents=True, exist_ok=True)
    file = write_lines(folder / f"{name}.jsonl", completions(asked, right))
    evaluate_predictions(file, asked, folder / name, settings=EvaluationSettings(**settings))
    return folder / name


class _Here(ScoringHere):
    def cancel(self) -> None:
        """Nothing is in progress."""


def score_here(patch: pytest.MonkeyPatch) -> None:
    """Evaluate without a scoring process, which takes longer to start than to score; a judge's and a file's stay."""
    patch.setattr(run, "scoring_by", lambda settings: (
        scoring_by(settings) if ":" in settings.scorer else _Here(settings)))


def item_result(name: object, value: float, cluster: str = "") -> ItemResult:
    """The score of one item."""
    return ItemResult(id=str(name), score=value, section="s", category="c", difficulty="d", cluster=cluster)


def shuffled(folder: Path, name: str, share: float, count: int = 200, seed: int = 0) -> Path:
    """A sealed evaluation with this share of right answers, anywhere among the items."""
    right = [k < round(share * count) for k in range(count)]
    random.Random(seed).shuffle(right)
    return score(folder, name, items(count), right)


def records(unit: Path) -> list[dict[str, Any]]:
    """The lines of a unit's predictions."""
    return [json.loads(line) for line in (unit / "predictions.jsonl").read_text(encoding="utf-8").splitlines()]


def summary(unit: Path) -> dict[str, Any]:
    """A unit's summary."""
    return dict(json.loads((unit / "eval_summary.json").read_text(encoding="utf-8")))
