"""A recipe that leaves the engine to us: what runs, what is written down, and that it runs again the same."""

import json

import pytest

from workings.config.load import load_recipe
from workings.engines.choice import choose
from workings.record.reader import Run
from workings.runs.engine_choice import with_engine
from workings.runs.smoke import Smoke
from workings.runs.train import train

RECIPE = "smoke-tiny"


def test_the_choice_is_an_override_with_its_reason():
    found = with_engine(load_recipe(RECIPE, ["engine=auto", "optimizer.name=adamw8bit", "seed=3"]), "cpu")
    assert found.recipe.engine == "torch"
    assert found.overrides == ("optimizer.name=adamw8bit", "seed=3", "engine=torch")
    assert found.chosen == ("engine: auto is torch: the engine for optimizer adamw8bit",)
    assert found.resolved() == load_recipe(RECIPE, found.overrides).resolved()


def test_an_engine_that_was_named_stays():
    loaded = load_recipe(RECIPE, ["engine=tunix"])
    assert with_engine(loaded) is loaded


@pytest.mark.parametrize(("words", "engine"), [(["mesh.tp=2"], "jax"), (["model.shape=gpt2"], "torch")])
def test_what_one_engine_alone_does_decides(words, engine):
    assert with_engine(load_recipe(RECIPE, ["engine=auto", *words]), "cpu").recipe.engine == engine


def test_a_run_says_writes_down_and_uses_what_was_chosen(tmp_path, capfd):
    words = ["engine=auto", "device=cpu"]
    loaded = with_engine(load_recipe(RECIPE, words))
    expected = choose(platform="cpu", parameters=40_000, only={}, installed=("jax", "torch"))
    assert loaded.recipe.engine == expected.engine
    result = train(RECIPE, tmp_path / "runs" / "a", words, smoke=Smoke(steps=2))
    run = Run.open(result.run)
    assert run.manifest.engine == expected.engine
    assert run.manifest.config_snapshot["engine"] == expected.engine
    asked = json.loads((result.run / "config" / "overrides.json").read_text())
    assert asked["overrides"] == ["device=cpu", f"engine={expected.engine}"]
    assert asked["chosen"] == list(loaded.chosen)
    assert f"chosen     engine: auto is {expected.engine}: measured" in capfd.readouterr().err
