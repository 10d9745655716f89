"""A complete engine outside this package, which the tests bring and which learns."""

import inspect

import numpy as np
import pytest

from tests.engines.tiny import random_batch, request, tiny_shape
from tests.other_package.other_engine import UnigramEngine
from workings.engines.base import Engine, EngineClass


@pytest.fixture
def engine():
    return UnigramEngine.open(request(tiny_shape()))


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
