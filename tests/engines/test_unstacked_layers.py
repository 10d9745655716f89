"""A step whose layers are arrays of their own gives what one of stacks gives, and its state reads as one of stacks."""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
import pytest

from tests.engines.tiny import random_batch, tiny_shape
from tests.engines.tiny import request as plain_request
from workings.config.method import LoraConfig
from workings.config.training import AdafactorConfig, MemoryConfig, MuonConfig, PrecisionConfig
from workings.engines.jax.cpu.unstacked_layers import UnstackedState, stack, unstack
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.params_tree import flatten_params, unflatten_params
from workings.engines.jax.step import ACCELERATORS

pytestmark = pytest.mark.slow

SHAPE = tiny_shape(layers=3)
request = partial(plain_request, cpu_optimizations=True)


def leaves(state: Any) -> list[np.ndarray]:
    return [np.asarray(x) for x in jax.tree.leaves(dict(state))]


def test_a_tree_unstacked_and_stacked_again_is_the_same() -> None:
    whole = flatten_params(JaxEngine.open(request(SHAPE)).init(0)["params"])
    unstacked = unstack(whole)
    assert sorted(flatten_params(unflatten_params(unstacked))) == sorted(unstacked)
    assert np.array_equal(unstacked["layers.2.mlp.up_proj.weight"], whole["layers.mlp.up_proj.weight"][2])
    again = stack(unstacked)
    assert sorted(again) == sorted(whole)
    assert all(np.array_equal(again[name], x) for name, x in whole.items())


MORE: dict[str, dict[str, Any]] = {
    "adamw": {}, "adafactor": {"optimizer": AdafactorConfig(name="adafactor")},
    "lora": {"method": LoraConfig(name="lora", rank=2)},
    "master": {"precision": PrecisionConfig(parameters="bf16", rounding="master_fp32")},
    "chunk": {"memory": MemoryConfig(loss_chunk=5)}}
ONE_OF_EACH = ((2, "adamw"),)


@pytest.mark.parametrize(("accumulation", "more"), [
    pytest.param(accumulation, MORE[name], id=f"{accumulation}-{name}",
                 marks=() if (accumulation, name) in ONE_OF_EACH else pytest.mark.full)
    for accumulation in (1, 2) for name in MORE])
def test_a_step_gives_what_one_of_stacks_gives(more: dict[str, Any], accumulation: int) -> None:
    batch = random_batch(SHAPE, micro=accumulation)
    found = []
    for unstacked in (True, False):
        engine = JaxEngine.open(request(SHAPE, **more))
        assert engine.spec.variant.unstacked
        if not unstacked:
            engine.spec = replace(engine.spec, variant=ACCELERATORS)
        state = engine.init(0)
        for _ in range(3):
            state, result = engine.step(state, batch, 1e-3)
        assert isinstance(state, UnstackedState) == unstacked
        assert engine.evaluate(state, batch).supervised_tokens == batch.supervised_tokens
        found.append((result.loss, result.grad_norm, leaves(state)))
    assert found[0][:2] == pytest.approx(found[1][:2], rel=1e-4)
    for one, other in zip(found[0][2], found[1][2], strict=True):
        assert one.shape == other.shape
        assert one.dtype == other.dtype
        # Three steps at 1e-3 move a weight by up to 3e-3: an update of half the size is fifteen times this bound.
        np.testing.assert_allclose(one.astype(np.float32), other.astype(np.float32), atol=1e-4,
                                   rtol=1e-5 if one.dtype == np.float32 else 1e-2)


def test_a_state_is_saved_as_stacks_and_goes_on_bit_for_bit(tmp_path: Path) -> None:
    batch, engine = random_batch(SHAPE), JaxEngine.open(request(SHAPE))
    first = engine.init(0)
    state, _ = engine.step(first, batch, 1e-3)
    assert first["params"]["layers"]["mlp.up_proj.weight"].is_deleted()  # consumed, as a step consumes every state
    engine.save(state, tmp_path)
    other = JaxEngine.open(request(SHAPE))
    again = other.restore(tmp_path)
    assert all(np.array_equal(x, y) for x, y in zip(leaves(again), leaves(state), strict=True))
    ends = [leaves(one.step(one_state, batch, 1e-3)[0]) for one, one_state in ((engine, state), (other, again))]
    assert all(x.tobytes() == y.tobytes() for x, y in zip(*ends, strict=True))


@pytest.mark.parametrize("more", [
    pytest.param({"memory": MemoryConfig(remat="layer")}, id="remat", marks=pytest.mark.full),
    pytest.param({"optimizer": MuonConfig(name="muon")}, id="muon"),
    pytest.param({"precision": PrecisionConfig(parameters="bf16", rounding="stochastic")}, id="stochastic",
                 marks=pytest.mark.full)])
def test_what_goes_by_the_stack_keeps_it(more: dict[str, Any]) -> None:
    engine = JaxEngine.open(request(SHAPE, **more))
    state, _ = engine.step(engine.init(0), random_batch(SHAPE), 1e-3)
    assert isinstance(state, dict)
    assert not JaxEngine.open(request(tiny_shape(layers=9))).spec.variant.unstacked
