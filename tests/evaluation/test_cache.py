"""The untrained model is asked once for the same weights, items and settings, and is next to the runs."""

from pathlib import Path
from typing import Any

from tests.doubles import adding_model
from tests.evaluation.making import items
from workings.evaluation.cache import evaluate_base
from workings.evaluation.settings import EvaluationSettings
from workings.evaluation.unit import EvaluationRecord
from workings.scoring.items import Item

BASE = {"shape": "tiny", "seed": 17}


def ask(folder: Path, fake: Any, asked: list[Item], base: dict[str, Any],
        **settings: Any) -> tuple[EvaluationRecord, str]:
    return evaluate_base(fake, asked, folder, make_state=lambda: fake.state,
                         settings=EvaluationSettings(**settings), model=base, name="org/tiny (2 layers)")


def test_the_second_run_finds_what_the_first_one_made(tmp_path: Path) -> None:
    first, second = adding_model(), adding_model()
    made, _ = ask(tmp_path, first, items(6), BASE)
    found, _ = ask(tmp_path, second, items(6), BASE)
    assert (len(first.engine.calls), len(second.engine.calls)) == (1, 0)
    assert found.path == made.path
    assert made.path.parent == tmp_path
    assert made.path.name.startswith("base-org-tiny-2-layers-")
    assert found.config["made_from"] == {"absent": "not made from a sealed run"}
    assert found.config["model"] == BASE
    ask(tmp_path, second, items(6), BASE, seed=4)
    assert not second.engine.calls, "a seed decides nothing of greedy answers"


def test_anything_that_decides_the_answers_is_part_of_the_name(tmp_path: Path) -> None:
    ask(tmp_path, adding_model(), items(6), BASE)
    for asked, base, settings in [
            (items(7), BASE, {}), (items(6), {**BASE, "seed": 18}, {}), (items(6), BASE, {"max_new_tokens": 99}),
            (items(6), BASE, {"scorer": "exact"}), (items(6), BASE, {"rules": ("answer_tag",)})]:
        fake = adding_model()
        ask(tmp_path, fake, asked, base, **settings)
        assert fake.engine.calls


def test_a_changed_unit_is_noticed_and_made_again(tmp_path: Path) -> None:
    ask(tmp_path, adding_model(), items(6), BASE)
    (predictions,) = tmp_path.glob("*/predictions.jsonl")
    predictions.write_text(predictions.read_text().replace('"score":0', '"score":1'))
    fake = adding_model()
    _, note = ask(tmp_path, fake, items(6), BASE)
    assert "predictions.jsonl is not the file that was sealed; recomputed" in note
    assert fake.engine.calls
