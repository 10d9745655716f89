"""Runs that learn from a teacher: the student comes closer, on both engines; it is replayed; what cannot teach.

A run that was killed goes on as one that learns from rewards does: see `test_train_rewarded.py`.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runs import distilled, killed
from tests.runs.runs_helpers import lines_of, train_refuses
from workings.config.load import load_recipe
from workings.engines.base import EngineRequest
from workings.errors import RecordError, RequestError
from workings.evidence.verify import verify
from workings.inputs.resolve import find_shape
from workings.models.tokenizer import Tokenizer
from workings.publish.export import export_run
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.train import train
from workings.ways.parts.teacher import find_teacher, refuse_other_vocabulary


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return distilled.write(tmp_path_factory.mktemp("distilled"))


@pytest.mark.slow
@pytest.mark.parametrize("engine", ["torch", pytest.param("jax", marks=pytest.mark.full)])
def test_the_student_comes_closer_to_its_teacher(recipe, tmp_path, engine):
    done = train(str(recipe), tmp_path / "run", [f"engine={engine}", "training.steps=80", "batch.micro_batch=32",
                                                 "training.learning_rate=2e-2", "algorithm.updates=2",
                                                 "checkpoint.every_steps=40"])
    apart = [line["kl_teacher"] for line in lines_of(done.run) if "kl_teacher" in line]
    assert (done.status, len(apart), done.rewards) == ("complete", 40, None)
    # 32 completions of up to 12 tokens: one rollout's mean moves by about a tenth of its value.
    assert sum(apart[-5:]) < 0.7 * sum(apart[:5])
    assert verify(done.run).failed == 0
    facts = json.loads((done.run / "config" / "teacher.json").read_text())
    assert facts["root"] == json.loads((recipe.parent / "teacher" / "SEAL.json").read_text())["root"]


@pytest.mark.parametrize("engine", ["torch", pytest.param("jax", marks=pytest.mark.full)])
def test_it_is_replayed_with_its_teacher_and_without(tmp_path, engine):
    recipe = distilled.write(tmp_path)
    run = train(str(recipe), tmp_path / "run", [f"engine={engine}", "training.steps=2"]).run
    root = json.loads((tmp_path / "teacher" / "SEAL.json").read_text())["root"]
    with_it, without = distilled.replayed_with_its_teacher_and_without(run, tmp_path / "teacher")
    assert with_it["teacher"].get("root") == root
    assert without["teacher"].get("root") != root
    assert "needed" in without["teacher"]["absent"]


@pytest.mark.full
def test_a_run_with_adapters_teaches_what_its_merged_weights_do(tmp_path):
    recipe = distilled.write(tmp_path, ["method.name=lora", "training.steps=20"])
    export_run(tmp_path / "teacher", tmp_path / "merged")
    found = {}
    for name in ("teacher", "merged"):
        found[name] = train(str(recipe), tmp_path / f"by-{name}", [f"algorithm.teacher={name}", "training.steps=1"]).run
    first, second = (lines_of(run)[0]["kl_teacher"] for run in found.values())
    assert first == pytest.approx(second, abs=1e-5)
    facts = json.loads((found["teacher"] / "config" / "teacher.json").read_text())
    assert facts["base"] == {"id": "scratch:gemma", "seed": 3}
    assert [Path(name).name for name in facts["weights"]] == ["adapter_model.safetensors"]
    assert verify(found["teacher"]).failed == 0
    facts = replay_run(found["teacher"], ReplayRequest(start=0, steps=1))
    assert (facts["teacher"].get("run"), facts["mode"]) == ("teacher", "bitwise")
    assert facts["lines"][0]["drawn"]["asked"] == facts["lines"][0]["drawn"]["same"] > 0
    with pytest.raises(RequestError, match="adapters on random weights of engine jax"):
        train(str(recipe), tmp_path / "other", ["engine=torch"])


def test_adapters_beside_other_weights_do_not_teach(tmp_path):
    """Those that a pretrained base had are proved by the digests in the teacher's record."""
    recipe = distilled.write(tmp_path)
    export_run(tmp_path / "teacher", tmp_path / "base")
    tuned = tmp_path / "tuned.yaml"
    tuned.write_text(distilled.TEACHER)
    train(str(tuned), tmp_path / "tuned", ["model={source: pretrained, id: base}", "tokenizer=model",
                                           "method.name=lora", "training.steps=1"])
    words = ["algorithm.teacher=tuned", "training.steps=1"]
    facts = json.loads((train(str(recipe), tmp_path / "run", words).run / "config" / "teacher.json").read_text())
    assert (facts["base"]["id"], list(facts["base"]["weights"])) == ("base", ["model.safetensors"])
    weights = tmp_path / "base" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 1
    weights.write_bytes(data)
    with pytest.raises(RecordError, match="not what the adapters of the teacher were trained next to"):
        train(str(recipe), tmp_path / "again", words)


@pytest.mark.full
@pytest.mark.parametrize("engine", ["jax", "torch"])
def test_a_teacher_in_fewer_bits_says_about_the_same(recipe, tmp_path, engine):
    if engine == "torch":
        pytest.importorskip("bitsandbytes")
    found = {}
    for precision in ("fp32", "bf16", "nf4"):
        done = train(str(recipe), tmp_path / precision, [f"engine={engine}", f"algorithm.teacher_precision={precision}",
                                                         "training.steps=1"])
        found[precision] = lines_of(done.run)[0]["kl_teacher"]
    # In four bits, matrices of 16 columns share scales by 64.
    near = {"fp32": 0.0, "bf16": 1e-2, "nf4": 0.3}
    for precision, value in found.items():
        assert value == pytest.approx(found["fp32"], rel=near[precision])
    assert len(set(found.values())) == 3, "each was really stored so"


def test_what_cannot_teach_is_refused_before_anything_is_made(recipe, tmp_path):
    refused = {
        ("tokenizer=train", "data.traces=dev-reasoning"): "tokens have another id than the student's or none",
        ("algorithm.teacher=nowhere/at/all",): "nowhere/at/all",
        ('rewards=[{scorer: answer}]',): "algorithm.name: distill does not take rewards",
        ("data.max_length=10000",): "data.max_length: 10000 is longer than the model's context",
    }
    for words, said in refused.items():
        train_refuses(recipe, tmp_path / "run", words, said)


def test_a_changed_checkpoint_does_not_teach(recipe, tmp_path):
    shutil.copytree(recipe.parent / "teacher", tmp_path / "teacher")
    weights = next((tmp_path / "teacher").glob("checkpoints/*/model.safetensors"))
    data = bytearray(weights.read_bytes())
    data[-3] ^= 1
    weights.write_bytes(data)
    with pytest.raises(RecordError, match="bytes differ from those committed"):
        train(str(recipe), tmp_path / "run", [f"algorithm.teacher={tmp_path / 'teacher'}"])


@pytest.fixture
def found(recipe):
    """Tokenizer and shape of the student, and its teacher."""
    loaded = load_recipe(str(recipe), ["algorithm.teacher_precision=nf4"])
    tokenizer = Tokenizer.load(recipe.parent / "teacher" / "config" / "tokenizer")
    shape = replace(find_shape(loaded), vocab_size=tokenizer.vocab_size)
    return tokenizer, shape, find_teacher(loaded, tokenizer, shape)


def test_a_teacher_may_have_tokens_and_rows_of_its_own(recipe, found):
    tokenizer, shape, teacher = found
    assert teacher.shape.width == 16
    more = Tokenizer.load(recipe.parent / "teacher" / "config" / "tokenizer")
    more.backend.add_tokens(["<picture>"])
    assert more.digest != tokenizer.digest
    wider = replace(teacher.shape, vocab_size=more.vocab_size)
    refuse_other_vocabulary(replace(teacher, tokenizer=more, shape=wider), tokenizer, shape)
    with pytest.raises(RequestError, match=r"1 tokens have another id.*'<picture>'"):
        refuse_other_vocabulary(teacher, more, wider)
    with pytest.raises(RequestError, match=f"has only {tokenizer.vocab_size} rows in its embedding"):
        refuse_other_vocabulary(teacher, tokenizer, wider)


def test_bits_that_the_teachers_matrices_cannot_have_are_refused_by_the_recipes_own_key(recipe, found):
    _, shape, teacher = found
    odd = replace(teacher, shape=replace(teacher.shape, mlp_width=33))
    with pytest.raises(RequestError, match=r"teacher_precision: nf4(?s:.*)33 x 16(?s:.*)teacher_precision=bf16"):
        odd.engine("jax", EngineRequest.of(load_recipe(str(recipe)).recipe, shape, device="cpu"))


@pytest.mark.slow
def test_adapters_of_a_student_learn_from_another_model_than_the_one_below_them(recipe, tmp_path):
    done = train(str(recipe), tmp_path / "run", ["method.name=lora", "training.steps=2"])
    first = lines_of(done.run)[0]
    assert first["kl_teacher"] > 0.1, "the model below the adapters is the student itself, at a distance of 0"
    # With one update a rollout every ratio is 1, so the loss is minus the mean advantage: the divergence.
    assert first["loss"] == pytest.approx(first["kl_teacher"], rel=1e-4)
    assert first["mismatch"] < 1e-5
    assert verify(done.run).failed == 0


def test_another_teacher_does_not_go_on_with_a_run(tmp_path, start_forked):
    recipe = distilled.write(tmp_path)
    start, words = killed.in_fork(start_forked), ["engine=torch", "checkpoint.every_steps=1"]
    assert killed.was_killed(killed.train(recipe, tmp_path / "run", words, start, "draw 3 unrewarded"))
    shutil.rmtree(tmp_path / "teacher")
    distilled.write(tmp_path, ["training.steps=3"])
    problem, = killed.resume(recipe, tmp_path / "run", words, start)
    assert "the same recipe and data as the run that is resumed" in problem
    assert "teacher: " in problem
