"""The untrained model is asked once for the same weights, items and settings."""

from pathlib import Path
from typing import Any

import pytest

from tests.evaluation.fakes import model
from tests.evaluation.making import items
from workings.errors import RequestError
from workings.evaluation.cache import CachedEvaluation, evaluate_base
from workings.evaluation.items import Item
from workings.evaluation.settings import EvaluationSettings

BASE = {"shape": "tiny", "seed": 17}


def ask(folder: Path, name: str, fake: Any, asked: list[Item], base: dict[str, Any],
        **settings: Any) -> CachedEvaluation:
    return evaluate_base(fake.engine, lambda: fake.state, fake.tokenizer, fake.template, asked, folder / name / "base",
                         settings=EvaluationSettings(**settings), model=base, cache=folder / "cache")


def test_the_second_run_takes_it_from_the_cache(tmp_path: Path) -> None:
    first, second = model(), model()
    made = ask(tmp_path, "a", first, items(6), BASE)
    found = ask(tmp_path, "b", second, items(6), BASE)
    assert (made.from_cache, found.from_cache) == (False, True)
    assert (len(first.engine.calls), len(second.engine.calls)) == (1, 0)
    assert found.record.root == made.record.root
    assert found.record.results() == made.record.results()
    assert found.record.config["made_from"] == {"absent": "not made from a sealed run"}
    with pytest.raises(RequestError, match="exists"):
        ask(tmp_path, "b", second, items(6), BASE)


def test_anything_that_decides_the_answers_is_part_of_the_key(tmp_path: Path) -> None:
    ask(tmp_path, "a", model(), items(6), BASE)
    for number, (asked, base, settings) in enumerate([
            (items(7), BASE, {}), (items(6), {**BASE, "seed": 18}, {}), (items(6), BASE, {"max_new_tokens": 99}),
            (items(6), BASE, {"scorer": "exact"}), (items(6), BASE, {"rules": ("answer_tag",)})]):
        fake = model()
        assert not ask(tmp_path, f"b{number}", fake, asked, base, **settings).from_cache
        assert fake.engine.calls


def test_a_changed_cache_is_noticed_and_made_again(tmp_path: Path) -> None:
    ask(tmp_path, "a", model(), items(6), BASE)
    (predictions,) = (tmp_path / "cache").glob("*/predictions.jsonl")
    predictions.write_text(predictions.read_text().replace('"score":0', '"score":1'))
    fake = model()
    found = ask(tmp_path, "b", fake, items(6), BASE)
    assert not found.from_cache
    assert "was changed (predictions.jsonl); made again" in found.note
    assert fake.engine.calls
    assert ask(tmp_path, "c", model(), items(6), BASE).from_cache
