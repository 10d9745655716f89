"""A recipe that leaves the engine to us: what runs, what is written down, and that it runs again the same."""

import json
import re

import pytest

from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.hardware.catalog import find_target
from workings.planning.run_time import Throughput
from workings.record.reader import RunRecord
from workings.runs.choices import select_engine, with_choices
from workings.runs.train import train

RECIPE = "smoke-tiny"
CPU = find_target("cpu")


def test_the_choice_is_an_override_with_its_reason():
    found = with_choices(load_recipe(RECIPE, ["engine=auto", "optimizer.name=adamw8bit", "seed=3"]), CPU)
    assert found.recipe.engine == "torch"
    assert found.overrides == ("optimizer.name=adamw8bit", "seed=3", "engine=torch")
    assert found.chosen == ("engine: torch (picked by auto: the engine for optimizer adamw8bit)",)
    assert found.resolved() == load_recipe(RECIPE, found.overrides).resolved()


@pytest.mark.parametrize(("words", "engine"), [(["mesh.tp=2"], "jax"), (["model.shape=qwen3.5-2b"], "torch")])
def test_what_one_engine_alone_does_decides(words, engine):
    assert with_choices(load_recipe(RECIPE, ["engine=auto", *words]), CPU).recipe.engine == engine


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


LORA = "method={name: lora}"


@pytest.mark.parametrize(("target", "words", "engine", "compute", "parameters"), [
    ("t4", [LORA], "torch", "fp16", "bf16"), ("v5e-8", [LORA], "jax", "bf16", "bf16"),
    ("h200", [LORA, "engine=torch"], "torch", "bf16", "bf16"), ("h200", [], "jax", "bf16", "fp32"),
    ("h200", [LORA, "precision.parameters=fp32"], "jax", "bf16", "fp32"), ("p100", [LORA], "jax", "fp32", "fp32"),
    ("t4", [LORA, "model.shape=qwen3.5-2b"], "torch", "fp16", "bf16"),
    # Its experts have no products in fp16.
    ("t4", [LORA, "model.shape=gemma-4-26b-a4b"], "torch", "fp32", "fp32")])
def test_a_card_computes_in_the_16_bits_that_it_has(target, words, engine, compute, parameters):
    found = with_choices(load_recipe(RECIPE, ["engine=auto", "precision.compute=auto", *words]), find_target(target))
    assert (found.recipe.engine, found.recipe.precision.compute, found.recipe.precision.parameters) == (
        engine, compute, parameters)
    assert found.resolved() == load_recipe(RECIPE, found.overrides).resolved()
    assert any(line.startswith(f"precision.compute: {compute} (picked by auto: ") for line in found.chosen)


@pytest.mark.parametrize(("bf16", "torch", "words", "engine", "compute"), [
    (1.1, 2.0, ["engine=auto"], "torch", "fp32"), (1.2, 2.0, ["engine=auto"], "torch", "bf16"),
    (1.2, 0.9, ["engine=auto"], "jax", "bf16"), (0.5, 2.0, ["engine=jax"], "jax", "fp32"),
    (1.1, 1.01, ["engine=auto", "precision.compute=bf16"], "torch", "bf16")])
def test_a_long_run_on_a_cpu_takes_what_is_measured_to_be_faster(bf16, torch, words, engine, compute, monkeypatch):
    monkeypatch.setattr("workings.runs.choices.calibrated_throughput", lambda request, name, *_: Throughput(
        (torch if name == "torch" else 1.0) * (bf16 if request.precision.compute == "bf16" else 1.0), ""))
    found = with_choices(load_recipe(RECIPE, ["precision.compute=auto", "training.steps=100000000", LORA, *words]), CPU)
    assert (found.recipe.engine, found.recipe.precision.compute) == (engine, compute)


@pytest.mark.full
def test_one_measurement_on_this_cpu():
    words = ["precision.compute=auto", "training.steps=100000000", LORA, "engine=torch"]
    found = with_choices(load_recipe(RECIPE, words), CPU)
    other = {"fp32": "bf16", "bf16": "fp32"}[found.recipe.precision.compute]
    assert re.search(rf"auto: torch in {other} reaches \d\.\d\d of its speed, measured now", found.chosen[0])


def test_a_run_says_writes_down_and_uses_what_was_chosen(tmp_path, capfd):
    words = ["engine=auto", "device=cpu"]
    loaded = with_choices(load_recipe(RECIPE, words))
    assert loaded.recipe.engine == "jax"
    result = train(RECIPE, tmp_path / "runs" / "a", words, smoke=2)
    run = RunRecord.open(result.run)
    assert run.manifest.engine == "jax"
    assert run.manifest.config["engine"] == "jax"
    asked = json.loads((result.run / "config" / "overrides.json").read_text())
    assert asked["overrides"] == ["device=cpu", "engine=jax"]
    assert asked["chosen"] == list(loaded.chosen)
    chosen = ("chosen     engine: jax (picked by auto: jax and torch work; engine=torch picks the other; not measured, "
              "because the run is short)")
    assert chosen in capfd.readouterr().err
