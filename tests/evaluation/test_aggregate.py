"""From samples to an item's score, and asking for samples at a temperature."""

from itertools import combinations
from pathlib import Path
from typing import Any

import pytest

from tests.doubles import adding_model
from tests.evaluation.making import items, write_lines
from workings.errors import RequestError
from workings.evaluation.run import evaluate, evaluate_predictions
from workings.evaluation.settings import EvaluationSettings, aggregate_score, is_aggregate, majority_index, pass_at_k


def samples(*answers: tuple[str, float]) -> list[dict[str, Any]]:
    return [{"extracted": text if text else {"absent": "no answer"}, "score": score} for text, score in answers]


def test_majority_counts_equal_answers_once() -> None:
    assert majority_index(["7", "8", "7.0", "8 "]) == 0  # two each: the first to come
    assert majority_index(["9", "8", "$8.00"]) == 1
    assert majority_index(["The Tower", "tower", "bridge"]) == 0
    assert majority_index([{"absent": "x"}, {"absent": "x"}, "5"]) == 2
    assert majority_index([{"absent": "x"}]) == 0
    assert aggregate_score(samples(("8", 0), ("7", 1), ("7", 1)), "majority") == 1
    assert aggregate_score(samples(("8", 0), ("8", 0), ("7", 1)), "majority") == 0


@pytest.mark.parametrize(("n", "right", "k"), [(5, 0, 2), (5, 2, 1), (5, 2, 3), (5, 5, 5), (6, 1, 4)])
def test_pass_at_k_is_the_share_of_subsets_with_a_right_one(n: int, right: int, k: int) -> None:
    scores = [1] * right + [0] * (n - right)
    subsets = list(combinations(scores, k))
    assert pass_at_k(n, right, k) == pytest.approx(sum(any(subset) for subset in subsets) / len(subsets))
    given = samples(*((str(number), float(score)) for number, score in enumerate(scores)))
    assert aggregate_score(given, f"pass@{k}") == pytest.approx(pass_at_k(n, right, k))


def test_pass_needs_enough_samples(tmp_path: Path) -> None:
    assert is_aggregate("pass@2", 2)
    assert not any(is_aggregate(how, 2) for how in ("pass@3", "pass@0", "pass@x", "pass@", "best"))
    with pytest.raises(ValueError, match="pass@3"):
        pass_at_k(2, 1, 3)
    file = write_lines(tmp_path / "p.jsonl", [{"id": "i0", "sample": k, "completion": "7"} for k in range(2)])
    with pytest.raises(RequestError, match="pass@3 needs more than 2 samples"):
        evaluate_predictions(file, items(1), tmp_path / "out", settings=EvaluationSettings(aggregate="pass@3"))
    card = evaluate_predictions(file, items(1), tmp_path / "out", settings=EvaluationSettings(aggregate="pass@2"))
    assert card.accuracy == 1


def test_an_engine_that_does_not_sample_says_so(tmp_path: Path) -> None:
    fake = adding_model()
    with pytest.raises(RequestError, match="engine adding does not sample"):
        evaluate(fake, items(2), tmp_path / "out", made_from=None, settings=EvaluationSettings(temperature=0.5))
    assert not list(tmp_path.iterdir())
