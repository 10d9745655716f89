"""`workings eval` of plain weights on both engines; trained questions are not evaluated in a run."""

import json
from collections.abc import Callable
from pathlib import Path
from subprocess import CompletedProcess
from typing import Any

import pytest

from tests.evaluation.making import items, records, write_lines
from tests.runs.killed import trained_and_exported
from tests.runs.runs_helpers import refused
from workings.data.rows import prompt_digest
from workings.errors import RequestError
from workings.evaluation.scorecard import Scorecard
from workings.evaluation.settings import EvaluationSettings
from workings.record.digest import file_digest
from workings.runs.evaluate import evaluate_run, find_trained_items
from workings.runs.open_model import WeightsRequest
from workings.scoring.items import Item

pytest.importorskip("jax")
pytest.importorskip("torch")
Workings = Callable[..., "CompletedProcess[str]"]

COUNT = 6
@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What `trained_and_exported` gives, and items."""
    folder = trained_and_exported(tmp_path_factory.mktemp("weights"))
    write_lines(folder / "items.jsonl", [item.to_json() for item in items(COUNT)])
    return folder


def ask(made: Path, engine: str, out: Path, **settings: Any) -> Scorecard:
    """The same from Python, in this process."""
    return evaluate_run(str(made / "model"), made / "items.jsonl", out,
                        weights=WeightsRequest(template="gemma", engine=engine, device="cpu"),
                        settings=EvaluationSettings(**settings))


@pytest.mark.slow
def test_both_engines_answer_from_weights_what_the_run_answers(made: Path, tmp_path: Path) -> None:
    evaluate_run(made / "run", made / "items.jsonl", tmp_path / "run",
                 settings=EvaluationSettings(max_new_tokens=24))
    expected = [line["completion"] for line in records(tmp_path / "run")]
    assert len(set(expected)) > 1, "texts that differ are needed to agree about"
    for engine in ("jax", "torch"):
        assert ask(made, engine, tmp_path / engine, max_new_tokens=24).overall.n == COUNT
        assert [line["completion"] for line in records(tmp_path / engine)] == expected
        config = json.loads((tmp_path / engine / "eval_config.json").read_text())
        assert config["engine"]["name"] == engine
        assert config["model"]["weights"] == {"model.safetensors": file_digest(made / "model" / "model.safetensors")}
        assert config["made_from"] == {"absent": "not made from a sealed run"}


def test_what_a_recipe_would_say_has_to_be_said(made: Path, tmp_path: Path) -> None:
    asked = ["eval", made / "model", "--items", made / "items.jsonl", "--out", tmp_path / "x"]
    for more, text in (((), "--template is missing"), (("--engine", "torch"), "--template '' is unknown"),
                       (("--template", "chatml"), "--template chatml"),
                       (("--template", "gemma", "--engine", "abacus"), "--engine abacus"),
                       (("--template", "gemma", "--precision", "int4"), "--precision int4")):
        assert text in refused(*asked, *more)
    given = refused("eval", made / "run", "--template", "gemma", *asked[2:])
    assert "--template cannot be used with a sealed run" in given
    assert not (tmp_path / "x").exists()


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
