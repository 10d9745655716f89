"""A recipe that leaves the engine to us: what runs, what is written down, and that it runs again the same."""

import json

import pytest

from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.record.reader import RunRecord
from workings.runs.select_engine import select_engine, with_engine
from workings.runs.train import train

RECIPE = "smoke-tiny"


def test_the_choice_is_an_override_with_its_reason():
    found = with_engine(load_recipe(RECIPE, ["engine=auto", "optimizer.name=adamw8bit", "seed=3"]), "cpu")
    assert found.recipe.engine == "torch"
    assert found.overrides == ("optimizer.name=adamw8bit", "seed=3", "engine=torch")
    assert found.chosen == ("engine: torch (picked by auto: the engine for optimizer adamw8bit)",)
    assert found.resolved() == load_recipe(RECIPE, found.overrides).resolved()


@pytest.mark.parametrize(("words", "engine"), [(["mesh.tp=2"], "jax"), (["model.shape=qwen3.5-2b"], "torch")])
def test_what_one_engine_alone_does_decides(words, engine):
    assert with_engine(load_recipe(RECIPE, ["engine=auto", *words]), "cpu").recipe.engine == engine


BOTH = ("jax", "torch")


@pytest.mark.parametrize(("jax", "torch", "installed", "engine", "reason"), [
    ([], ["a TPU"], BOTH, "jax", "the engine for a TPU"),
    (["family qwen3_5"], [], BOTH, "torch", "the engine for family qwen3_5"),
    ([], ["optimizer muon"], BOTH, "jax", "the engine for optimizer muon"),
    ([], [], BOTH, "jax", "jax and torch work; engine=torch picks the other"),
    ([], [], ("torch",), "torch", "the only installed one of jax and torch")])
def test_the_engine_that_can_and_is_there_else_jax(jax, torch, installed, engine, reason):
    assert select_engine(refused={"jax": jax, "torch": torch}, installed=installed) == (engine, reason)


@pytest.mark.parametrize(("jax", "torch", "installed", "says"), [
    (["family qwen3_5"], ["a TPU"], BOTH, "jax does not support family qwen3_5; torch does not support a TPU"),
    (["family qwen3_5"], [], ("jax",), "family qwen3_5 needs torch, and that is not installed"),
    ([], [], (), "engine: auto means jax or torch, and that is not installed")])
def test_what_no_engine_can_do_is_refused(jax, torch, installed, says):
    with pytest.raises(RequestError) as error:
        select_engine(refused={"jax": jax, "torch": torch}, installed=installed)
    assert says in str(error.value)


def test_a_run_says_writes_down_and_uses_what_was_chosen(tmp_path, capfd):
    words = ["engine=auto", "device=cpu"]
    loaded = with_engine(load_recipe(RECIPE, words))
    assert loaded.recipe.engine == "jax"
    result = train(RECIPE, tmp_path / "runs" / "a", words, smoke=2)
    run = RunRecord.open(result.run)
    assert run.manifest.engine == "jax"
    assert run.manifest.config["engine"] == "jax"
    asked = json.loads((result.run / "config" / "overrides.json").read_text())
    assert asked["overrides"] == ["device=cpu", "engine=jax"]
    assert asked["chosen"] == list(loaded.chosen)
    chosen = "chosen     engine: jax (picked by auto: jax and torch work; engine=torch picks the other)"
    assert chosen in capfd.readouterr().err
