"""Runs that learn from a teacher, on their own completions or on traces: the student comes closer, on both engines.

A run that was killed goes on as one that learns from rewards does: see `test_train_rewarded.py`.
"""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.runs import distilled
from tests.runs.replayed import CONTROLS
from tests.runs.runs_helpers import lines_of, train_refuses
from workings.config.load import load_recipe
from workings.data import top_tokens
from workings.engines.base import EngineRequest
from workings.errors import RecordError, RequestError
from workings.evidence.replay.comparison import wrong_steps
from workings.evidence.verify import verify
from workings.inputs.resolve import find_shape
from workings.models.shapes import to_hf_config
from workings.models.tokenizer import Tokenizer
from workings.publish.export import export_run
from workings.record.layout import EVENTS, TOP_TOKENS
from workings.runs.memory_check import plan_here
from workings.runs.prepare import prepare
from workings.runs.replay import ReplayRequest, replay_run
from workings.runs.train import train
from workings.ways.parts.teacher import find_teacher, refuse_other_vocabulary, refuse_processes


@pytest.fixture(scope="module")
def recipe(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return distilled.write(tmp_path_factory.mktemp("distilled"))


@pytest.fixture(scope="module")
def on_traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return distilled.write(tmp_path_factory.mktemp("on-traces"), on_traces=True)


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
    root, found = json.loads((tmp_path / "teacher" / "SEAL.json").read_text())["root"], []
    for there in (True, False):
        if not there:
            (tmp_path / "teacher").rename(tmp_path / "gone")
        facts = replay_run(run, ReplayRequest(start=0, steps=2))
        assert wrong_steps(facts) == []
        assert {name for name, control in facts["controls"].items() if control["outside"]} == {*CONTROLS, "teacher"}
        found.append(facts["teacher"])
    assert found[0].get("root") == root
    assert "needed" in found[1]["absent"]


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
                                           "method.name=lora", "training.steps=1", "engine=torch"])
    loaded = load_recipe(str(recipe), ["algorithm.teacher=tuned"])
    tokenizer = Tokenizer.load(tmp_path / "tuned" / "config" / "tokenizer")
    shape = replace(find_shape(loaded), vocab_size=tokenizer.vocab_size)
    facts = find_teacher(loaded, tokenizer, shape).facts
    assert (facts["base"]["id"], list(facts["base"]["weights"])) == ("base", ["model.safetensors"])
    weights = tmp_path / "base" / "model.safetensors"
    data = bytearray(weights.read_bytes())
    data[-3] ^= 1
    weights.write_bytes(data)
    with pytest.raises(RecordError, match="not what the adapters of the teacher were trained next to"):
        _ = find_teacher(loaded, tokenizer, shape).facts


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


def test_what_cannot_teach_is_refused_before_anything_is_made(recipe, on_traces, tmp_path):
    refused = {
        ("tokenizer=train", "data.traces=dev-reasoning"): "tokens have another id than the student's or none",
        ("algorithm.teacher=nowhere/at/all",): "nowhere/at/all",
        ('rewards=[{scorer: answer}]',): "algorithm.name: distill does not take rewards",
        ("data.max_length=10000",): "data.max_length: 10000 is longer than the model's context",
    }
    for words, said in refused.items():
        train_refuses(recipe, tmp_path / "run", words, said)
    train_refuses(on_traces, tmp_path / "run", ["algorithm.top_k=0"], "algorithm.top_k")
    for asked in (recipe, on_traces):
        with pytest.raises(RequestError, match="does not run in several processes"):
            refuse_processes(load_recipe(str(asked)).recipe)


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
    done = train(str(recipe), tmp_path / "run", ["engine=torch", "method.name=lora", "training.steps=2"])
    first = lines_of(done.run)[0]
    assert first["kl_teacher"] > 0.1, "the model below the adapters is the student itself, at a distance of 0"
    # With one update a rollout every ratio is 1, so the loss is minus the mean advantage: the divergence.
    assert first["loss"] == pytest.approx(first["kl_teacher"], rel=1e-4)
    assert first["mismatch"] < 1e-5
    assert verify(done.run).failed == 0


def test_another_teacher_does_not_go_on_with_a_run(tmp_path):
    recipe, words = distilled.write(tmp_path), ["engine=torch", "checkpoint.every_steps=1"]
    assert train(str(recipe), tmp_path / "run", words, on_step=lambda line: line["step"] < 2).status == "interrupted"
    shutil.rmtree(tmp_path / "teacher")
    distilled.write(tmp_path, ["training.steps=3"])
    with pytest.raises(RequestError, match=r"teacher: (?s:.*)the same recipe and data as the run that is resumed"):
        train(str(recipe), tmp_path / "run", words, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("engine", [pytest.param("jax", marks=pytest.mark.full), "torch"])
def test_on_traces_the_student_comes_closer_to_its_teacher(on_traces, tmp_path, engine):
    """Packed on one engine and bucketed on the other: rows are told apart in either."""
    packing = "best_fit" if engine == "torch" else "none"
    done = train(str(on_traces), tmp_path / "run", [f"engine={engine}", "training.steps=12", f"data.packing={packing}"])
    losses = [line["loss"] for line in lines_of(done.run)]
    assert (done.status, len(losses)) == ("complete", 12)
    assert losses[-1] < 0.7 * losses[0]
    found = verify(done.run)
    assert [check.text for check in found.checks if check.verdict == "failed"] == []
    told = {check.id: check.text for check in found.checks}
    assert told["recompute.top_tokens"] == "12 steps"
    assert "positions of" in told["consistency.top_tokens"]


def test_what_was_asked_is_not_asked_again(on_traces, tmp_path, monkeypatch):
    """Asked in files of two batches; the teacher is gone after the first file, and there again when it is resumed."""
    monkeypatch.setattr(top_tokens, "MAX_BATCHES", 2)
    asked, words = [], ["engine=torch"]

    def stop_after(most):
        def record(said):
            asked.append(len(asked))
            if len(asked) == most:
                raise KeyboardInterrupt
            return contents(said)
        return record

    contents = top_tokens.to_bytes
    monkeypatch.setattr("workings.ways.parts.row_data.to_bytes", stop_after(2))
    with pytest.raises(KeyboardInterrupt):
        train(str(on_traces), tmp_path / "run", words)
    assert [path.name for path in (tmp_path / "run.partial" / TOP_TOKENS).iterdir()] == ["part_000000.safetensors"]
    monkeypatch.setattr("workings.ways.parts.row_data.to_bytes", contents)
    run = train(str(on_traces), tmp_path / "run", words, resume=True).run
    events = [json.loads(line) for line in (run / EVENTS).read_text().splitlines()]
    assert [event["part"] for event in events if event["kind"] == "teacher_asked"] == [0, 1]
    straight = train(str(on_traces), tmp_path / "straight", words).run
    names = ["part_000000.safetensors", "part_000001.safetensors"]
    for name in names:
        assert (run / TOP_TOKENS / name).read_bytes() == (straight / TOP_TOKENS / name).read_bytes()
    assert [line["loss"] for line in lines_of(run)] == [line["loss"] for line in lines_of(straight)]
    assert verify(run).failed == 0


@pytest.mark.full
def test_the_shipped_recipe_learns_from_the_quickstart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    short = ["training.steps=2", "training.warmup_steps=0", "evaluation={traces: none, items: none}"]
    train("quickstart", Path("runs") / "quickstart", short)
    done = train("quickstart-distill-cpu", Path("runs") / "student", short)
    assert (done.status, done.steps) == ("complete", 2)
    assert verify(done.run).failed == 0


def test_what_asking_the_teacher_needs_is_judged_before_a_weight_is_read(on_traces, tmp_path):
    """A teacher of petabytes: only its description and its tokenizer exist."""
    tokenizer = on_traces.parent / "teacher" / "config" / "tokenizer"
    shutil.copytree(tokenizer, tmp_path / "huge")
    loaded = load_recipe(str(on_traces), [f"algorithm.teacher={tmp_path / 'huge'}"])
    student = find_shape(loaded, vocabulary=Tokenizer.load(tokenizer).vocab_size)
    huge = replace(student, layers=8, width=2**24, mlp_width=2**24)
    (tmp_path / "huge" / "config.json").write_text(json.dumps(to_hf_config(huge)))
    setup = prepare(loaded)
    assert (setup.program, setup.verdict.fits, setup.verdict.source) == ("teacher", False, "estimated")
    assert plan_here(setup).program == "teacher"
    assert "largest part: parameters" in plan_here(setup).largest_part
    # One that fits leaves the compiled step to decide.
    assert prepare(load_recipe(str(on_traces))).program == "step"
