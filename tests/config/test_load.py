"""Recipes: strict, documented, helpful when wrong."""

import json
from pathlib import Path

import pytest

from tests.config.minimal_recipe import MINIMAL, values
from workings.config.load import check_recipe, load_recipe, shipped_recipes
from workings.config.recipe import Recipe
from workings.config.yaml_reader import parse_yaml
from workings.errors import RequestError


@pytest.mark.parametrize(("text", "value"), [
    ("4e-3", 0.004), ("-.5", -0.5), ("1.", 1.0), ("17", 17), ("+3", 3), ("true", True), ("null", None), ("~", None),
    # YAML 1.1 would read these as false, ninety minutes, sixteen and a thousand
    ("off", "off"), ("1:30", "1:30"), ("0x10", "0x10"), ("1_000", "1_000"), ("2026-01-01", "2026-01-01"),
])
def test_scalars_are_those_of_yaml_1_2(text, value):
    found = parse_yaml(text, "test")
    assert found == value
    assert type(found) is type(value)


@pytest.mark.parametrize(("text", "reason"), [
    ("a: &x [1]\nb: *x", "anchors"),
    ("a: 1\na: 2", "twice"),
    ("a: !!python/object/apply:os.system ['true']", "could not determine a constructor"),
    ("1: a", "not a text"),
    ("a: [", "line 1"),
    ("[" * 600, "depth"),
])
def test_yaml_that_is_refused(text, reason):
    with pytest.raises(RequestError, match=reason):
        parse_yaml(text, "recipe.yaml")


@pytest.mark.parametrize(("key", "written", "said"), [
    ("data", {"traces": "t", "max_length": 32, "packng": "none"}, "did you mean `data.packing`?"),
    ("modle", {"source": "scratch"}, "did you mean `model`?"),
    # a key that belongs elsewhere is named with its place
    ("data", {"traces": "t", "max_length": 32, "micro_batch": 2}, "did you mean `batch.micro_batch`?"),
    ("optimizer", {"name": "adamw", "bta1": 0.9}, "did you mean `optimizer.beta1`?"),
    # the former names of renamed keys
    ("algorithm", {"name": "grpo", "most_mismatch": 3}, "did you mean `algorithm.max_mismatch`?"),
])
def test_unknown_keys_get_a_suggestion(key, written, said):
    with pytest.raises(RequestError) as caught:
        check_recipe(values(**{key: written}), "recipe.yaml")
    assert caught.value.exit_code == 2
    assert said in str(caught.value)
    assert "recipe.yaml" in str(caught.value)


@pytest.mark.parametrize(("changes", "said"), [
    ({"batch": {"micro_batch": "4"}}, "batch.micro_batch cannot be '4'"),
    ({"batch": {"micro_batch": True}}, "batch.micro_batch cannot be True"),
    ({"batch": None}, "batch cannot be None"),
    ({"training": {"steps": 2, "learning_rate": 0}}, "greater than 0"),
    ({"training": {"steps": 2, "learning_rate": float("inf")}}, "a finite number"),
    ({"training": {"steps": 2, "learning_rate": 1e-3, "warmup_steps": 2}}, "training.warmup_steps: 2 with training"),
    ({"optimizer": {"name": "sgd"}}, "optimizer.name: one of adamw, adamw8bit, adafactor, muon"),
    ({"model": {"source": "hub", "id": "x"}}, "model.source: one of scratch, pretrained"),
    ({"name": "Not A Name"}, "name cannot be 'Not A Name'"),
    ({"algorithm": {"name": "grpo", "group": 1, "max_new_tokens": 8}}, "algorithm.group: 2 or more"),
    ({"data": {"traces": "t", "max_length": 32, "reasoning": "channel"}}, "channel with data.template: gemma"),
    ({"engine": "another", "precision": {"rounding": "stochastic"}}, "nearest: an fp32 weight keeps the whole update"),
    ({"precision": {"rounding": "master_fp32", "parameters": "bf16"}, "method": {"name": "qlora"}},
     "nearest: adapters are float32 and keep the whole update"),
])
def test_wrong_values_are_named_with_what_was_expected(changes, said):
    with pytest.raises(RequestError) as caught:
        check_recipe(values(**changes), "recipe.yaml")
    assert said in str(caught.value)


def test_overrides_reach_into_sections_and_keep_the_rest(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(MINIMAL)
    loaded = load_recipe(str(path), ["training.steps=7", "data.buckets=[16, 32]", "optimizer={name: adafactor}"])
    assert loaded.recipe.training.steps == 7
    assert loaded.recipe.training.learning_rate == 0.001
    assert loaded.recipe.data.buckets == (16, 32)
    assert loaded.recipe.optimizer.name == "adafactor"
    assert loaded.text == MINIMAL
    assert loaded.path("traces.jsonl") == tmp_path / "traces.jsonl"


@pytest.mark.parametrize("word", ["training.steps", "=3", "name.first=x"])
def test_overrides_that_are_none(tmp_path, word):
    path = tmp_path / "recipe.yaml"
    path.write_text(MINIMAL)
    with pytest.raises(RequestError):
        load_recipe(str(path), [word])


def test_unreadable_files(tmp_path):
    path = tmp_path / "latin.yaml"
    path.write_bytes("name: é".encode("latin-1"))
    with pytest.raises(RequestError, match="UTF-8"):
        load_recipe(str(path))
    path.write_text("- a\n- b\n")
    with pytest.raises(RequestError, match="a mapping of recipe keys"):
        load_recipe(str(path))
    with pytest.raises(RequestError, match=r"there is no file .*nothing.yaml"):
        load_recipe("nothing.yaml")


@pytest.mark.parametrize("name", sorted(shipped_recipes()))
def test_shipped_recipes_are_valid_and_explain_themselves(name):
    loaded = load_recipe(name)
    assert loaded.recipe.name == name
    assert loaded.text.startswith("# ")
    check_recipe(loaded.recipe.model_dump(mode="json", exclude_unset=True), name, as_written=True)
    # Left out where there is none, so that the digests of all other recipes stay.
    absent = {name for name in ("environment", "sampler") if getattr(loaded.recipe, name) is None}
    assert set(json.loads(json.dumps(loaded.resolved()))) == set(Recipe.model_fields) - absent


@pytest.mark.parametrize(("text", "overrides", "said"), [
    ("training: {steps: 3, learning_rate: 1e-3, stepz: 4}", [], "the key training.stepz is unknown, in {file}:6"),
    ("training: {steps: 3, learning_rate: 1e-3}", ["training.stepz=4"],
     "the key training.stepz is unknown, in the override training.stepz=4"),
    ("training: {steps: 3, learning_rate: 1e-3}", ["optimizer.name=adamw8"],
     "in the override optimizer.name=adamw8\nexpected: optimizer.name: one of adamw, adamw8bit, adafactor, muon\n"
     "try:      did you mean `optimizer.name: adamw8bit`?"),
    ("training: {steps: 3, learning_rate: 1e-3}", ["evaluation=none"], "a section with base, batch_size"),
    *(("training: {steps: 3, learning_rate: 1e-3}", [words], "DoRA also trains the length")
      for words in ("method.dora=true", "method.name=dora", "use_dora=true")),
    ("training: {steps: 3, learning_rate: 1e-3}", ["load_best_model_at_end=true"], "is `checkpoint.keep` here"),
    ("training: {steps: many, learning_rate: 1e-3}", [], "training.steps: a whole number"),
    ("training: {steps: 3, learning_rate: 1e-3, schedule: cosin}", [], "did you mean `training.schedule: cosine`?"),
])
def test_an_error_names_file_and_line_or_the_override_and_what_was_meant(tmp_path, text, overrides, said):
    path = tmp_path / "recipe.yaml"
    path.write_text(MINIMAL.replace("training: {steps: 3, learning_rate: 1e-3}", text))
    with pytest.raises(RequestError) as caught:
        load_recipe(str(path), overrides)
    assert said.format(file=path) in str(caught.value)
    assert "Input" not in str(caught.value)  # the library's own words


def test_what_is_missing_is_said_as_words_of_the_command(tmp_path: Path) -> None:
    place = tmp_path / "recipe.yaml"
    place.write_text("model: {source: pretrained, id: Qwen/Qwen3-0.6B}\ndata: {traces: t.jsonl}\n"
                     "training: {epochs: 1, learning_rate: 1e-4}\n")
    with pytest.raises(RequestError) as found:
        load_recipe(place)
    words = found.value.try_next.partition("at the end of the command: ")[2].split()
    values = {"name": "a", "data.max_length": "64", "batch.micro_batch": "1"}
    load_recipe(place, [word.replace("=…", f"={values[word.removesuffix('=…')]}") if "…" in word else word
                        for word in words])


def test_another_choice_than_the_file_s_is_told_what_to_leave_out() -> None:
    with pytest.raises(RequestError) as caught:
        load_recipe("qwen3-0.6b-lora-t4x2", ["method.name=full"])
    assert "`method.rank` goes with `name: lora` or `name: qlora`; method.rank=null" in caught.value.try_next
    words = ["method.name=full", "method.rank=null", "method.alpha=null"]
    assert load_recipe("qwen3-0.6b-lora-t4x2", words).recipe.method.name == "full"


def test_a_key_without_its_choice_is_told_the_choices_that_have_it():
    with pytest.raises(RequestError, match=r"method.name=lora or method.name=qlora, with rank"):
        load_recipe("smoke-tiny", ["method.rank=8"])


def test_null_removes_a_key_of_the_recipe_so_that_its_default_holds(tmp_path: Path) -> None:
    words = ["training.schedule=constant", "training.final_share=null"]
    constant = load_recipe("smollm2-135m-cpu", words)
    assert constant.recipe.training.schedule == "constant"
    assert load_recipe("smollm2-135m-cpu", {"optimizer.clip_norm": None}).recipe.optimizer.clip_norm == 0.0
    # A key that is not there cannot be left out: it may be misspelt.
    with pytest.raises(RequestError, match=r"the key training\.final_shar is unknown"):
        load_recipe("smollm2-135m-cpu", ["training.final_shar=null"])
    with pytest.raises(RequestError, match=r"`training\.learning_rate` is missing"):
        load_recipe("smollm2-135m-cpu", ["training.learning_rate=null"])
