"""From the names in a recipe to weights, tokenizer and shape, without a network and without a device."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from workings.config.load import LoadedRecipe, load_recipe, shipped_recipes
from workings.config.model import FromPretrained
from workings.errors import RequestError
from workings.inputs.datasets import find_data
from workings.inputs.resolve import (
    TRAINED_VOCABULARY,
    fetch_tensors,
    find_or_fetch_shape,
    find_shape,
    find_weights,
    locate_weights,
    resolve,
)
from workings.models.hub import LOCAL
from workings.models.shapes import published_shape, to_hf_config
from workings.record.digest import file_digest, json_digest
from workings.runs.smoke import shrink


@pytest.fixture(autouse=True)
def no_hub(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **settings: object) -> None:
        raise AssertionError(f"the Hub was asked for {arguments} {settings}")
    monkeypatch.setattr("huggingface_hub.snapshot_download", refuse)


def pretrained(name: str, base: Path) -> LoadedRecipe:
    loaded = load_recipe("smoke-tiny")
    model = FromPretrained(source="pretrained", id=name)
    return replace(loaded, base=base, recipe=loaded.recipe.model_copy(update={"model": model}))


def test_a_recipe_is_resolved_whole() -> None:
    loaded = load_recipe("smoke-tiny")
    resolved = resolve(loaded)
    assert resolved.shape.vocab_size == resolved.tokenizer.vocab_size <= TRAINED_VOCABULARY
    assert resolved.weights.directory is None
    assert resolved.config == loaded.resolved()
    assert resolved.config_digest == json_digest(loaded.resolved())
    assert find_shape(loaded).vocab_size == TRAINED_VOCABULARY


def test_a_folder_is_looked_for_in_the_order_of_the_places(tmp_path: Path) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    (second / "base").mkdir(parents=True)
    first.mkdir()
    assert locate_weights("base", "main", [first, second]).directory == second / "base"
    (first / "base").mkdir()
    weights = locate_weights("base", "main", [first, second])
    assert (weights.directory, weights.id, weights.revision) == (first / "base", "base", LOCAL)
    fetch_tensors(weights)  # a folder has them already


def test_a_revision_of_weights_that_have_none_is_refused(tmp_path: Path) -> None:
    (tmp_path / "base").mkdir()
    asked = pretrained("base", tmp_path)
    model = asked.recipe.model.model_copy(update={"revision": "v1"})
    other = replace(asked, recipe=asked.recipe.model_copy(update={"model": model}))
    assert find_weights(asked).directory == tmp_path / "base"
    with pytest.raises(RequestError, match=r"model\.revision: v1 does not apply to base"):
        find_weights(other)


def test_the_folder_decides_the_shape_and_else_the_catalog(tmp_path: Path) -> None:
    published = published_shape("gemma-2b")
    assert find_shape(pretrained("google/gemma-2b", tmp_path)) == published
    assert find_shape(pretrained("google/gemma-2b-it", tmp_path)) == published
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.json").write_text(json.dumps(to_hf_config(replace(published, layers=3))))
    own = pretrained("mine", tmp_path)
    assert find_shape(own).layers == 3
    assert find_shape(own, directory=find_weights(own).directory) == find_or_fetch_shape(own) == find_shape(own)
    with pytest.raises(RequestError, match="or a model whose shape is known"):
        find_shape(pretrained("missing/nothing", tmp_path))


def test_smoke_takes_the_machine_at_hand() -> None:
    small = shrink(load_recipe("gemma-2b-t4x2")).recipe
    assert (small.device, small.mesh.fsdp, small.mesh.tp) == ("auto", "auto", 1)


def test_a_file_of_another_format_is_imported(tmp_path: Path) -> None:
    chat = tmp_path / "chat.jsonl"
    chat.write_text('{"messages": [{"role": "user", "content": "2+2?"}, {"role": "assistant", "content": "4"}]}\n')
    data = find_data(load_recipe("smoke-tiny", [f"data.traces={chat}"]))
    assert [(trace.prompt, trace.answer) for trace in data.examples] == [("2+2?", "4")]
    assert data.digests["traces"] == file_digest(chat)
    with pytest.raises(RequestError, match="a file of traces, addition, or a data set: dev-reasoning"):
        find_data(load_recipe("smoke-tiny", ["data.traces=/nowhere"]))


@pytest.mark.parametrize("words", [
    ["data.traces=mine.jsonl"],
    ["data.traces=mine.jsonl", "algorithm.name=dpo", "batch.micro_batch=2"],
    ["evaluation.items=mine.jsonl"],
])
def test_a_file_that_is_not_there_is_told_with_the_folder_where_it_was_looked_for(tmp_path: Path, monkeypatch,
                                                                                  words) -> None:
    (tmp_path / "recipes").mkdir()
    recipe = tmp_path / "recipes" / "mine.yaml"
    recipe.write_text(shipped_recipes()["smoke-tiny"])
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RequestError, match=f"there is no file {tmp_path}/recipes/mine.jsonl"):
        find_data(load_recipe(str(recipe), words))
