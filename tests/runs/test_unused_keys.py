"""A key that nothing reads is refused before anything is opened or compiled; what an engine does not do, it refuses."""

import json
from dataclasses import replace

import pytest

from workings.config.load import check_recipe, load_recipe
from workings.config.section import Section
from workings.engines.registry import find_engine
from workings.errors import RequestError
from workings.runs.plan import plan
from workings.runs.prepare import prepare
from workings.runs.train import train

FOR_THE_ENGINE = ("optimizer", "precision", "memory", "mesh", "method")
"""Sections whose keys an engine honours or refuses: `EngineRequest` hands them on."""


@pytest.fixture
def read(monkeypatch):
    """Section and key of every access to a key of a recipe, from now on."""
    seen = set()

    def remembered(self, name):
        seen.add((id(self), name))
        return object.__getattribute__(self, name)
    monkeypatch.setattr(Section, "__getattribute__", remembered, raising=False)
    return seen


def keys_of(section, prefix=""):
    """Dotted key -> the section that holds it, for all keys of a recipe but the names of variants."""
    found = {}
    for name in type(section).model_fields:
        value = section.__dict__[name]
        if isinstance(value, Section):
            found |= keys_of(value, f"{prefix}{name}.")
        elif name != "source":
            found[f"{prefix}{name}"] = (id(section), name)
    return found


NEEDED = {"name", "data.traces", "data.max_length", "data.packing", "batch.micro_batch", "training.steps",
          "training.learning_rate", "training.schedule", "evaluation.items", "evaluation.traces"}
"""Keys that every recipe has, and those that the cases below set."""


def refused(values, key):
    """Whether a recipe with the needed keys and this one is refused for it."""
    asked = {name: value for name, value in values.items() if name in ("model", "optimizer") or name in {*NEEDED, key}}
    for dotted in (*NEEDED, key):
        section, dot, name = dotted.partition(".")
        if dot and section != "model":
            asked.setdefault(section, {})[name] = values[section][name]
    try:
        check_recipe(asked, "test", as_written=True)
    except RequestError as error:
        return error.given.startswith(f"{key}: ") or f"does not take {key}: " in error.given
    return False


@pytest.mark.parametrize(("items", "traces"), [
    ("none", "none"), ("items.jsonl", "none"), ("none", "held_out.jsonl"), ("items.jsonl", "held_out.jsonl")])
@pytest.mark.parametrize(("schedule", "packing"), [("constant", "none"), ("cosine", "best_fit")])
def test_refused_is_what_a_run_does_not_read(recipe, read, schedule, items, traces, packing):
    loaded = load_recipe(str(recipe))
    values = json.loads(loaded.recipe.model_dump_json())  # every key, as if someone had written them all
    values["training"]["schedule"] = schedule
    values["data"] |= {"packing": packing, "buckets": [32, 48] if packing == "none" else []}
    values["evaluation"] |= {"items": items, "traces": traces}
    asked = check_recipe(values, "test")
    keys = {key: place for key, place in keys_of(asked).items() if not key.startswith(FOR_THE_ENGINE)}
    assert len(keys) > 30
    read.clear()
    setup = prepare(replace(loaded, recipe=asked))
    _ = setup.recipe.name, setup.questions, setup.watched_items
    checkpoint, training = setup.recipe.checkpoint, setup.recipe.training  # as the loop does
    _ = checkpoint.every_steps, checkpoint.keep_last, checkpoint.every_minutes, checkpoint.keep
    _ = training.rate_at(training.steps)
    if setup.held_out or setup.evaluation:  # as the observer does
        _ = setup.recipe.evaluation.every_steps
    if setup.evaluation:  # as the evaluation after the run does
        _ = setup.recipe.evaluation.base
    # A shape is handed on whole.
    unread = {key for key, place in keys.items() if place not in read and not key.startswith("model.shape.")}
    unread -= {"data.buckets"}  # an empty list is allowed with packing: it takes back those of a recipe
    # The name of a variant, an empty list, which takes back one as well, and no sampler.
    unread -= {"algorithm.name", "rewards", "sampler"}
    # Next to steps no epochs are read; a recipe that gives both is refused as a whole.
    unread -= {"training.epochs"}
    assert {key for key in keys if refused(values, key)} == unread


@pytest.mark.parametrize(("word", "given"), [
    ("training.final_share=0.1", "training.final_share: 0.1"), ("evaluation={samples: 1}", "evaluation.samples: 1"),
    ("precision.rounding=stochastic", "precision.rounding: stochastic")])
def test_nothing_is_opened_or_compiled_for_it(recipe, tmp_path, monkeypatch, word, given):
    for name in ("open", "inspect"):
        monkeypatch.setattr(find_engine("unigram").engine, name, lambda *_: pytest.fail("the engine was asked"))
    monkeypatch.setattr("workings.runs.plan.plan_with_nearest", lambda *_, **__: pytest.fail("planned"))
    words = ["training.schedule=constant", word]
    for ask in (lambda: train(str(recipe), tmp_path / "run", words), lambda: plan(str(recipe), "cpu", words),
                lambda: plan(str(recipe), "v5e-8", ["engine=jax", *words])):
        with pytest.raises(RequestError) as caught:
            ask()
        assert caught.value.exit_code == 2
        assert caught.value.given.startswith(f"{given} with ")
    assert not list(tmp_path.glob("run*"))


@pytest.mark.parametrize(("word", "given"), [
    ("memory.loss_chunk=128", "memory.loss_chunk: 128"), ("optimizer.beta1=0.5", "optimizer.beta1: 0.5"),
    ("precision.parameters=bf16", "precision.parameters: bf16"), ("method={name: lora}", "method.name: lora"),
    ("mesh.tp=2", "mesh.fsdp: auto, mesh.tp: 2")])
def test_what_the_other_packages_engine_does_not_do_it_refuses(recipe, tmp_path, monkeypatch, word, given):
    monkeypatch.setattr(find_engine("unigram").engine, "inspect", lambda *_: pytest.fail("inspected"))
    with pytest.raises(RequestError, match=f"{given} with engine unigram"):
        train(str(recipe), tmp_path / "run", [word])
    with pytest.raises(RequestError):
        plan(str(recipe), "cpu", [word])
    assert not list(tmp_path.glob("run*"))
