"""What a recipe that learns from pairs may ask for."""

from typing import Any

import pytest

from tests.config.minimal_recipe import MINIMAL
from workings.config.load import check_recipe, load_recipe
from workings.config.recipe import Recipe
from workings.engines.base import EngineRequest
from workings.errors import RequestError
from workings.models.shapes import published_shape
from workings.objectives.preference import Preference


def recipe(tmp_path: Any, *words: str) -> Recipe:
    path = tmp_path / "recipe.yaml"
    path.write_text(MINIMAL)
    return load_recipe(str(path), ("algorithm.name=dpo", *words)).recipe


def test_its_objective_is_what_an_engine_is_asked_for(tmp_path: Any) -> None:
    asked = recipe(tmp_path, "batch.micro_batch=2", "algorithm.beta=0.5", "algorithm.label_smoothing=0.1")
    assert (asked.algorithm.examples, asked.algorithm.rows_per_example) == ("pairs", 2)
    request = EngineRequest.of(asked, published_shape("gemma-2b"))
    assert request.objective == Preference(beta=0.5, label_smoothing=0.1)
    assert EngineRequest.from_json(request.to_json()) == request
    assert check_recipe(asked.model_dump(mode="json"), "again") == asked


@pytest.mark.parametrize(("words", "said"), [
    (("batch.micro_batch=3",), "batch.micro_batch=4"),
    (("batch.micro_batch=2", "data.packing=best_fit"), "data.packing=none"),
    (("batch.micro_batch=2", "algorithm.loss=ipo", "algorithm.label_smoothing=0.1"), "loss ipo alone"),
    (("batch.micro_batch=2", "algorithm.loss=ipo", "algorithm.length_normalized=true"), "loss ipo alone"),
    (("batch.micro_batch=2", "algorithm.label_smoothing=0.5"), "less than 0.5"),
    (("batch.micro_batch=2", "algorithm.beta=0"), "greater than 0"),
    (("batch.micro_batch=2", "rewards=[{scorer: answer}]"), "algorithm.name: dpo does not take rewards"),
    (("batch.micro_batch=2", "algorithm.group=8"), "group"),
    (("batch.micro_batch=2", "evaluation.items_during_training=4"), "evaluation.items_during_training"),
])
def test_what_does_not_go_together_is_refused(tmp_path: Any, words: tuple[str, ...], said: str) -> None:
    with pytest.raises(RequestError) as caught:
        recipe(tmp_path, *words)
    assert said in str(caught.value)
