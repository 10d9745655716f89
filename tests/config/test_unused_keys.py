"""Keys that decide nothing next to another key, or do not go together, are refused in a recipe that a person wrote."""

import pytest

from tests.config.minimal_recipe import MINIMAL
from workings.config.load import check_recipe, load_recipe
from workings.config.section import changed_keys
from workings.config.training import AdafactorConfig, AdamWConfig, MemoryConfig, PrecisionConfig
from workings.engines.base import EngineRequest
from workings.errors import RequestError
from workings.models.shapes import published_shape
from workings.objectives.preference import Preference

UNUSED = [
    (["training.schedule=constant", "training.final_share=0.1"],
     "training.final_share: 0.1 with training.schedule: constant",
     "leave it out, or training.schedule=cosine; training.final_share=null leaves out that of a recipe"),
    (["training.schedule=constant", "training.final_share=0.0"],  # the default too, where someone wrote it
     "training.final_share: 0.0 with training.schedule: constant",
     "leave it out, or training.schedule=cosine; training.final_share=null leaves out that of a recipe"),
    (["data.packing=best_fit", "data.buckets=[16, 32]"],
     "data.buckets: [16, 32] with data.packing: best_fit", "data.buckets=[], or data.packing=none"),
    (["evaluation={every_steps: 4, samples: 0}"],
     "evaluation.every_steps: 4, evaluation.samples: 0 with neither evaluation.items nor evaluation.traces",
     "evaluation.items=eval, or without them: 'evaluation={}'"),
    (["evaluation={traces: held out.jsonl, every_steps: 4, max_new_tokens: 8, batch_size: 2, base: false}"],
     "evaluation.max_new_tokens: 8, evaluation.batch_size: 2, evaluation.base: false with evaluation.items: none",
     "evaluation.items=eval, or without them: 'evaluation={traces: held out.jsonl, every_steps: 4}'"),
]


@pytest.fixture
def recipe(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(MINIMAL)
    return str(path)


@pytest.mark.parametrize(("words", "given", "try_next"), UNUSED)
def test_a_key_that_decides_nothing_is_refused_with_a_way_on(recipe, words, given, try_next):
    with pytest.raises(RequestError) as caught:
        load_recipe(recipe, words)
    assert caught.value.exit_code == 2
    said, _, place = caught.value.given.partition(", in ")
    assert said == given
    assert place.startswith((f"{recipe}:", "the override "))
    assert caught.value.expected
    assert caught.value.try_next == try_next


@pytest.mark.parametrize("words", [words for words, *_ in UNUSED if "data.buckets=[16, 32]" not in words])
def test_a_record_may_name_every_key(recipe, words):
    used = [word for word in words if "schedule" in word or "packing" in word]
    resolved = load_recipe(recipe, used).resolved()
    assert check_recipe(resolved, "a record").model_dump(mode="json") == resolved
    with pytest.raises(RequestError):
        check_recipe(resolved, "a user's file", as_written=True)


@pytest.mark.parametrize("words", [
    ["training.schedule=linear", "training.final_share=0.1"], ["training.schedule=constant", "training.warmup_steps=2"],
    ["data.buckets=[]"], ["data.buckets=[]", "data.packing=best_fit"], ["data.buckets=[16, 32]", "data.packing=none"],
    ["evaluation={items: eval, every_steps: 4, samples: 0, max_new_tokens: 8, batch_size: 2, base: false}"]])
def test_a_key_with_a_use_is_taken(recipe, words):
    load_recipe(recipe, words)


def test_unused_and_unknown_keys_are_reported_together(recipe):
    with pytest.raises(RequestError) as caught:
        load_recipe(recipe, ["evaluation.samples=3", "training.stps=3"])
    assert "evaluation.samples: 3" in caught.value.given
    assert "did you mean `training.steps`?" in caught.value.try_next


def test_an_engine_is_told_what_is_not_the_default():
    asked = {"optimizer": AdamWConfig(name="adamw", beta1=0.9, beta2=0.95), "memory": MemoryConfig(remat="layer")}
    assert changed_keys(asked) == {"optimizer.beta2": 0.95, "memory.remat": "layer"}
    assert changed_keys({"optimizer": AdafactorConfig(name="adafactor"), "precision": PrecisionConfig()}) == {}


def test_the_objective_of_pairs_is_what_an_engine_is_asked_for(recipe):
    asked = load_recipe(recipe, ["algorithm.name=dpo", "algorithm.beta=0.5", "algorithm.label_smoothing=0.1"]).recipe
    assert (asked.algorithm.examples, asked.algorithm.rows_per_example) == ("pairs", 2)
    request = EngineRequest.of(asked, published_shape("gemma-2b"))
    assert request.objective == Preference(beta=0.5, label_smoothing=0.1)
    assert EngineRequest.from_json(request.to_json()) == request
    assert check_recipe(asked.model_dump(mode="json"), "again") == asked


@pytest.mark.parametrize(("words", "said"), [
    (("batch.micro_batch=3",), "batch.micro_batch=4"),
    (("data.packing=best_fit",), "data.packing=none"),
    (("algorithm.loss=ipo", "algorithm.label_smoothing=0.1"), "loss ipo alone"),
    (("algorithm.loss=ipo", "algorithm.length_normalized=true"), "loss ipo alone"),
    (("algorithm.label_smoothing=0.5",), "less than 0.5"),
    (("algorithm.beta=0",), "greater than 0"),
    (("rewards=[{scorer: answer}]",), "algorithm.name: dpo does not take rewards"),
    (("algorithm.group=8",), "group"),
    (("evaluation.items_during_training=4",), "evaluation.items_during_training"),
])
def test_what_does_not_go_with_pairs_is_refused(recipe, words, said):
    with pytest.raises(RequestError) as caught:
        load_recipe(recipe, ["algorithm.name=dpo", *words])
    assert said in str(caught.value)
