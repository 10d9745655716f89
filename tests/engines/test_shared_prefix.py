"""What begins every row alike is computed once on both engines; losses, gradients and weights stay what they were."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest
import torch

from tests.engines.tiny import random_batch, request, tiny_shape
from workings.config.method import LoraConfig
from workings.config.training import MemoryConfig
from workings.engines.base import EngineRequest
from workings.engines.jax import shared_prefix
from workings.engines.jax.engine import JaxEngine
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.last_layer import last_feed_forward
from workings.engines.torch.step import micro_batch_loss, to_rows
from workings.models.batch import Batch
from workings.models.shape import ModelShape

pytestmark = pytest.mark.slow

PREFIX, LENGTH, ROWS = 5, 12, 4
LINE = PREFIX + ROWS * (LENGTH - PREFIX)


@pytest.fixture(autouse=True)
def narrow_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """Models of tests are narrower than those that it pays for."""
    monkeypatch.setattr(shared_prefix, "LEAST_WIDTH", 0)


def alike(shape: ModelShape, micro: int = 2, rows: int = ROWS, seed: int = 0) -> Batch:
    """Rows that begin alike, in the last micro batch with an empty one at the end."""
    batch = random_batch(shape, micro=micro, rows=rows, length=LENGTH, seed=seed)
    place = np.arange(LENGTH)
    real = (batch.segment_ids > 0) | (place <= PREFIX)
    real[-1, -1] = False
    tokens = np.where(place < PREFIX, batch.tokens[:1, :1], batch.tokens)
    weights = np.where(place < PREFIX, 0.0, np.maximum(batch.weights, place == PREFIX))
    return Batch(tokens=np.where(real, tokens, 0), positions=np.where(real, place, 0).astype(np.int32),
                 segment_ids=real.astype(np.int32), weights=np.where(real, weights, 0).astype(np.float32),
                 targets=batch.targets).sharing(PREFIX)


def step_of(asked: EngineRequest, batch: Batch) -> tuple[float, float, dict[str, np.ndarray]]:
    engine = JaxEngine.open(asked)
    state, result = engine.step(engine.init(0), batch, 1e-3)
    leaves = {jax.tree_util.keystr(at): np.asarray(x) for at, x in jax.tree.leaves_with_path(state["params"])}
    return result.loss, result.grad_norm, leaves


@pytest.mark.parametrize(("family", "picks", "settings"), [
    ("gemma2", True, {}),
    ("gemma3", False, {"memory": MemoryConfig(remat="layer"), "method": LoraConfig(name="lora", rank=2)}),
], ids=["layers apart", "stacked, adapters"])
def test_a_jax_step_gives_the_same(family: str, settings: dict[str, Any], *, picks: bool) -> None:
    """Grouped heads, caps, windows shorter than a row and than the prefix."""
    shape = tiny_shape(family)
    batch, asked = alike(shape), request(shape, **settings)
    if picks:
        batch = batch.picking(int(np.count_nonzero(batch.weights, -1).max()) + 1)
    (loss, norm, params), expected = step_of(asked, batch), step_of(asked, replace(batch, shared_prefix=0))
    assert loss == pytest.approx(expected[0], rel=1e-6)
    assert norm == pytest.approx(expected[1], rel=1e-5)
    for name, x in params.items():
        np.testing.assert_allclose(x, expected[2][name], atol=2e-5, err_msg=name)


def flops(engine: JaxEngine, batch: Batch) -> float:
    return float(engine.compiled_step(batch).cost_analysis()["flops"])


def test_the_program_does_less_and_one_is_compiled_for_a_shape() -> None:
    shape = tiny_shape(layers=2)
    engine, batch = JaxEngine.open(request(shape)), alike(shape, micro=1, rows=16)
    engine.inspect(replace(Batch.blank(batch.tokens.shape), shared_prefix=PREFIX))
    state = engine.init(0)
    for each in (batch, alike(shape, micro=1, rows=16, seed=1)):
        state, _ = engine.step(state, each, 1e-3)
    assert engine.compilations == 1
    assert flops(engine, batch) < 0.8 * flops(engine, replace(batch, shared_prefix=0))


def test_what_is_shared_with_nobody_or_pays_for_nobody_is_computed_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """One row shares nothing; chunked attention and a narrow model gain nothing: a prefix changes no program then."""
    shape = tiny_shape()
    batch = alike(shape, micro=1)
    one = replace(Batch.of({name: x[:, :1] for name, x in batch.arrays.items()}), shared_prefix=PREFIX)
    engine, chunked = (JaxEngine.open(request(shape, memory=memory))
                       for memory in (MemoryConfig(), MemoryConfig(attention="chunked")))
    assert flops(engine, batch) < flops(engine, replace(batch, shared_prefix=0))
    assert flops(engine, one) == flops(engine, replace(one, shared_prefix=0))
    assert flops(chunked, batch) == flops(chunked, replace(batch, shared_prefix=0))
    assert to_rows(TorchEngine.open(request(shape)).spec, one)[0][0].laid is None
    monkeypatch.setattr(shared_prefix, "LEAST_WIDTH", shape.width + 1)
    narrow = JaxEngine.open(request(shape))
    assert flops(narrow, batch) == flops(narrow, replace(batch, shared_prefix=0))


@pytest.mark.parametrize("memory", [MemoryConfig(), MemoryConfig(remat="layer"), MemoryConfig(attention="chunked")],
                         ids=["plain", "layer", "chunked"])
@pytest.mark.parametrize("family", ["gemma", "gemma2", "gemma3", "gpt2"])
def test_torchs_loss_and_gradients_are_the_same(family: str, memory: MemoryConfig) -> None:
    """And nothing but attention sees a prefix more than once."""
    engine = TorchEngine.open(request(tiny_shape(family), memory=memory))
    batch, found = alike(engine.spec.shape), []
    for each in (batch, replace(batch, shared_prefix=0)):
        state, seen = engine.init(0), []
        first = next(x for x in state.model.modules() if type(x) is type(last_feed_forward(state.model)))
        first.register_forward_pre_hook(lambda module, given, seen=seen: seen.append(given[0].shape[:2]))
        rows, total = to_rows(engine.spec, each)
        losses = [micro_batch_loss(engine.spec, state.model, part, total) for part in rows]
        torch.stack(losses).sum().backward()
        found.append({name: x.grad for name, x in state.trained.items()} | {"loss": torch.stack(losses).detach()})
        assert set(seen) == {(1, LINE) if each.shared_prefix else (ROWS, LENGTH)}
    for name, x in found[0].items():
        torch.testing.assert_close(x, found[1][name], atol=1e-6, rtol=1e-4, msg=name)


def test_a_prefix_that_rows_do_not_share_is_refused() -> None:
    batch = alike(tiny_shape())
    tokens = batch.tokens.copy()
    tokens[1, 2, PREFIX - 1] += 1
    with pytest.raises(ValueError, match="share no prefix of 5 positions"):
        replace(batch, tokens=tokens).sharing(PREFIX)
    with pytest.raises(ValueError, match="share no prefix of 6 positions"):
        batch.sharing(PREFIX + 1)
