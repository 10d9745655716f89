"""Files that overrides name: looked for where the command is typed, then next to the recipe."""

from pathlib import Path

import pytest

from workings.config.load import load_recipe, shipped_recipes
from workings.config.recipe_paths import with_changed_paths
from workings.errors import RequestError


@pytest.fixture
def recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A recipe in its own folder, seen from where commands are typed."""
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes" / "mine.yaml").write_text(shipped_recipes()["smoke-tiny"])
    monkeypatch.chdir(tmp_path)
    return "recipes/mine.yaml"


def test_a_file_that_is_here_is_meant(recipe: str) -> None:
    Path("mine.jsonl").touch()
    loaded = load_recipe(recipe, ["data.traces=mine.jsonl", "evaluation={items: mine.jsonl}"])
    assert loaded.path(loaded.recipe.data.traces) == Path("mine.jsonl").absolute()
    assert loaded.overrides == ("data.traces=../mine.jsonl", 'evaluation={"items": "../mine.jsonl"}')
    # As the record keeps it: the same words mean the same file, read from anywhere.
    assert load_recipe(recipe, loaded.overrides).recipe == loaded.recipe


def test_a_file_beside_the_recipe_is_found_as_well(recipe: str) -> None:
    Path("recipes/mine.jsonl").touch()
    assert load_recipe(recipe, ["data.traces=mine.jsonl"]).overrides == ("data.traces=mine.jsonl",)


def test_two_files_of_one_name_are_told_apart_by_the_person(recipe: str) -> None:
    Path("mine.jsonl").touch()
    Path("recipes/mine.jsonl").touch()
    with pytest.raises(RequestError, match=r"one here and one in .*\n.*\n.*\.\./mine\.jsonl for the one here"):
        load_recipe(recipe, ["data.traces=mine.jsonl"])
    assert load_recipe(recipe, ["data.traces=../mine.jsonl"]).overrides == ("data.traces=../mine.jsonl",)


@pytest.mark.parametrize("override", ["data.traces=addition", "tokenizer=train", "training.steps=3", "name=addition"])
def test_a_folder_that_is_called_like_something_else_changes_nothing(recipe: str, override: str) -> None:
    for name in ("addition", "train"):
        Path(name).mkdir()
    assert load_recipe(recipe, [override]).overrides == (override,)


def test_files_of_rewards_move_with_the_rest() -> None:
    rewards = [{"scorer": "own.py:count", "weight": 2}, {"scorer": "answer"}, {"scorer": "/tmp/own.py:count"}]
    assert with_changed_paths({"rewards": rewards, "model": {"id": "https://a/b"}}, lambda name: f"../{name}") == {
        "rewards": [{"scorer": "../own.py:count", "weight": 2}, *rewards[1:]], "model": {"id": "https://a/b"}}
