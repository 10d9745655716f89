"""`workings.testing`: the engine is a whole one and learns, and the adding model answers as documented."""

import inspect
import textwrap

import numpy as np
import pytest
from safetensors.numpy import save_file

import workings.testing
from tests.engines.tiny import random_batch, request, tiny_shape
from workings.engines.base import Engine, EngineClass
from workings.errors import DeviceError, RecordError
from workings.testing import AddingEngine, CharacterTokenizer, PlainTemplate, UnigramEngine, adding_model


@pytest.fixture
def engine():
    return UnigramEngine.open(request(tiny_shape()))


def test_every_name_is_there_and_no_other():
    assert all(getattr(workings.testing, name).__name__ == name for name in workings.testing.__all__)
    assert dir(workings.testing) == sorted(workings.testing.__all__)
    with pytest.raises(AttributeError, match="no attribute 'UnigramTrainer'"):
        workings.testing.UnigramTrainer  # noqa: B018


def test_the_example_of_the_docstring_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = workings.testing.__doc__.partition("::\n")[2].partition("\nNothing here")[0]
    exec(compile(textwrap.dedent(text), "workings.testing", "exec"), {})
    assert (tmp_path / "evaluation" / "SEAL.json").is_file()


def test_the_engine_has_every_method_of_the_protocol():
    methods = {name: kind for name, kind in vars(Engine).items() if not name.startswith("_")}
    assert len(methods) > 10
    for name in methods:
        wanted, own = (inspect.signature(getattr(of, name)).parameters for of in (Engine, UnigramEngine))
        assert [(p.name, p.kind) for p in own.values()] == [(p.name, p.kind) for p in wanted.values()], name
    wanted, own = inspect.signature(EngineClass.open).parameters, inspect.signature(UnigramEngine.open).parameters
    assert list(wanted)[1:] == list(own)
    assert UnigramEngine.name == "unigram"


def test_the_engine_learns_down_to_the_entropy_of_the_targets(engine):
    batch = random_batch(tiny_shape())
    state, losses = engine.init(3), []
    for _ in range(300):
        state, result = engine.step(state, batch, 0.5)
        losses.append(result.loss)
    share = np.bincount(batch.targets[batch.loss_mask > 0]) / batch.supervised_tokens
    entropy = -np.sum(share[share > 0] * np.log(share[share > 0]))
    assert losses[0] == pytest.approx(np.log(61), abs=0.05)
    assert losses[-1] == pytest.approx(entropy, abs=0.02)
    after = engine.evaluate(state, batch)
    assert after.loss_sum / after.supervised_tokens == pytest.approx(entropy, abs=0.02)
    [completion] = engine.generate(state, [[1, 2]], max_new_tokens=3, stop_ids=[])
    best = completion.tokens[0]
    assert share[best] == share.max()
    assert (completion.tokens, completion.finish_reason) == ([best] * 3, "length")
    [stopped] = engine.generate(state, [[1, 2]], max_new_tokens=3, stop_ids=[best])
    assert (stopped.tokens, stopped.finish_reason) == ([], "stop")


def test_a_gradient_is_the_slope_of_the_loss(engine):
    batch, state, delta = random_batch(tiny_shape()), engine.init(3), 1e-6
    slopes = []
    for token in range(61):
        at = [engine.evaluate(state | {"logits": state["logits"] + sign * delta * (np.arange(61) == token)}, batch)
              for sign in (1, -1)]
        slopes.append((at[0].loss_sum - at[1].loss_sum) / (2 * delta * batch.supervised_tokens))
    stepped, result = engine.step(state, batch, 0.1)
    assert stepped["logits"] == pytest.approx(state["logits"] - 0.1 * np.array(slopes), abs=1e-8)
    assert result.grad_norm == pytest.approx(np.linalg.norm(slopes), abs=1e-8)


def test_a_restored_state_goes_on_bit_for_bit(engine, tmp_path):
    batch = random_batch(tiny_shape())
    state, _ = engine.step(engine.init(3), batch, 0.5)
    engine.save(state, tmp_path)
    (straight, one), (resumed, other) = (engine.step(begun, batch, 0.5) for begun in (state, engine.restore(tmp_path)))
    assert one == other
    assert all(straight[name].tobytes() == resumed[name].tobytes() for name in ("logits", "velocity", "step"))
    fresh = engine.load(tmp_path)
    assert np.array_equal(fresh["logits"], state["logits"])
    assert (int(fresh["step"]), fresh["velocity"].any()) == (0, False)


@pytest.mark.parametrize(("tensors", "says"), [
    ({"velocity": np.zeros(61)}, "no tensor step"),
    ({"velocity": np.zeros(60), "step": np.zeros((), np.int64)}, "has shape"),
    (None, "optimizer.safetensors"), (b"\x00", "optimizer.safetensors"),
], ids=["a tensor is missing", "another shape", "no file", "damaged"])
def test_what_cannot_be_restored_is_refused(engine, tensors, says, tmp_path):
    engine.save(engine.init(3), tmp_path)
    file = tmp_path / "optimizer.safetensors"
    if tensors is None:
        file.unlink()
    elif isinstance(tensors, bytes):
        file.write_bytes(tensors)
    else:
        save_file(tensors, file)
    with pytest.raises(RecordError, match=says):
        engine.restore(tmp_path)


def test_no_other_device_is_taken_in_silence():
    with pytest.raises(DeviceError, match="device: gpu"):
        UnigramEngine.open(request(tiny_shape(), device="gpu"))


def test_the_environment_makes_the_engine_misbehave(engine, monkeypatch):
    batch = random_batch(tiny_shape())
    monkeypatch.setenv("UNIGRAM_LIMIT_BYTES", "100")
    monkeypatch.setenv("UNIGRAM_NAN_AT", "1")
    monkeypatch.setenv("UNIGRAM_HUNGRY_AT", "2")
    assert engine.describe().memory_limit_bytes == 100
    state, result = engine.step(engine.init(3), batch, 0.5)
    assert np.isnan(result.loss)
    assert np.isfinite(state["logits"]).all()
    with pytest.raises(MemoryError):
        engine.step(state, batch, 0.5)


@pytest.mark.parametrize(("wrong_every", "right"), [
    (1, [False] * 5), (2, [False, True, False, True, False]), (4, [False, True, True, True, False]), (0, [True] * 5)])
def test_the_adding_engine_is_wrong_where_it_says(wrong_every, right):
    model = adding_model(wrong_every=wrong_every)
    prompts = [model.template.prompt_ids(f"What is {a}+7?") for a in range(5)]
    answers = [model.tokenizer.decode(completion.tokens) for completion in
               model.engine.generate(model.state, prompts, max_new_tokens=99, stop_ids=model.template.stop_ids)]
    assert answers == [f"<reasoning>{a}+7={a + 7}</reasoning><answer>{a + 7 + (not good)}</answer>"
                       for a, good in enumerate(right)]
    assert model.engine.calls == [{"prompts": [f"What is {a}+7?" for a in range(5)], "max_new_tokens": 99,
                                   "stop_ids": [0]}]


def test_the_adding_engine_is_cut_stopped_and_picky():
    engine, prompt = AddingEngine(die_at_call=1), PlainTemplate().prompt_ids("What is 1+7?")
    [cut] = engine.generate(None, [prompt], max_new_tokens=11, stop_ids=[])
    assert (CharacterTokenizer().decode(cut.tokens), cut.finish_reason) == ("<reasoning>", "length")
    with pytest.raises(KeyboardInterrupt):
        engine.generate(None, [prompt], max_new_tokens=11, stop_ids=[])
    with pytest.raises(ValueError, match="invalid literal"):
        AddingEngine().generate(None, [CharacterTokenizer().encode("Why?")], max_new_tokens=11, stop_ids=[])
