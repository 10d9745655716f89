"""Products in float16: as near to float32 as the format allows, safe from its overflow, and resumed bit for bit."""

import math
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from tests.engines.tiny import plain_batch, tiny_shape
from workings.config.method import FULL, LoraConfig, MethodConfig, QloraConfig
from workings.config.training import MemoryConfig, PrecisionConfig
from workings.engines.base import EngineRequest
from workings.engines.torch import checkpoint
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.half import FIRST_SCALE, GROWTH_STEPS, LossScale, half_product
from workings.engines.torch.step import State
from workings.errors import RequestError
from workings.models.batch import Batch

LORA, QLORA = LoraConfig(name="lora"), QloraConfig(name="qlora")
LOSS, NORM, RATE = 1e-3, 5e-3, 1e-3
"""Relative differences to float32 over four updates, and the rate of the updates."""


def tiny_batch(seed: int) -> Batch:
    return plain_batch(tiny_shape(), seed)


def opened(compute: str, family: str = "gemma3", method: MethodConfig = FULL) -> TorchEngine:
    return TorchEngine.open(EngineRequest(shape=tiny_shape(family), device="cpu", method=method,
                                          precision=PrecisionConfig.model_validate({"compute": compute})))


@pytest.mark.parametrize(("family", "method"), [
    ("gemma2", FULL), ("llama", FULL), *(("gemma3", method) for method in (FULL, LORA, QLORA))])
def test_float16_is_as_float32_within_rounding(family: str, method: MethodConfig) -> None:
    found = {}
    for compute in ("fp32", "fp16"):
        engine = opened(compute, family, method)
        state, results = engine.init(0), []
        for seed in range(4):
            state, result = engine.step(state, tiny_batch(seed), RATE)
            results.append(result)
        found[compute] = results
    for wide, half in zip(found["fp32"], found["fp16"], strict=True):
        assert half.loss == pytest.approx(wide.loss, rel=LOSS)
        assert half.grad_norm == pytest.approx(wide.grad_norm, rel=NORM)
        assert half.loss != wide.loss  # products are not float32's
        assert half.metrics == {"loss_scale": FIRST_SCALE, "skipped_updates": 0}


def test_an_input_beyond_the_range_of_float16_is_multiplied() -> None:
    draw = torch.Generator().manual_seed(0)
    x = torch.randn(6, 32, generator=draw)
    x[2] *= 1e6  # Gemma's feed-forward has such rows
    weight = torch.randn(16, 32, generator=draw)
    results = []
    for product in (half_product, torch.nn.functional.linear):
        a, b = x.clone().requires_grad_(), weight.clone().requires_grad_()
        y = product(a, b)
        (y * torch.linspace(-1, 1, 16)).sum().backward()
        results.append((y.detach(), a.grad, b.grad))
    for half, wide in zip(*results, strict=True):
        assert half is not None
        assert wide is not None
        assert (half - wide).norm() < 1e-3 * wide.norm()


def with_scale(state: State, value: float) -> State:
    state.loss_scale = replace(state.loss_scale or LossScale(), value=value)
    return state


def test_an_update_whose_gradient_overflows_is_skipped_and_the_scale_halved() -> None:
    engine = opened("fp16")
    state = with_scale(engine.init(0), 2.0**60)
    before = {name: weight.detach().clone() for name, weight in state.trained.items()}
    state, result = engine.step(state, tiny_batch(0), 1e-2)
    assert math.isfinite(result.loss)
    assert result.grad_norm == 0
    assert result.share_of_weights_changed == 0
    assert result.metrics == {"loss_scale": 2.0**60, "skipped_updates": 1}
    assert all(torch.equal(before[name], weight) for name, weight in state.trained.items())
    state, result = engine.step(with_scale(state, FIRST_SCALE), tiny_batch(0), 1e-2)
    assert result.grad_norm > 0
    assert result.metrics == {"loss_scale": FIRST_SCALE, "skipped_updates": 1}


def test_the_scale_follows_the_rule_of_gradient_scaling() -> None:
    scale = LossScale(good_steps=GROWTH_STEPS - 2)
    assert scale.after(1.0) == LossScale(good_steps=GROWTH_STEPS - 1)
    assert scale.after(1.0).after(1.0) == LossScale(value=2 * FIRST_SCALE)
    assert scale.after(math.inf) == LossScale(value=FIRST_SCALE / 2, skipped=1)
    assert scale.after(math.nan).skipped == 1
    assert LossScale.of_tensor(replace(scale, skipped=3).tensor()) == replace(scale, skipped=3)


def test_a_gradient_that_no_scale_saves_ends_the_run() -> None:
    engine = opened("fp16")
    state = with_scale(engine.init(0), 1.0)
    with torch.no_grad():
        next(iter(state.trained.values())).fill_(math.nan)
    _, result = engine.step(state, tiny_batch(0), 1e-2)
    assert not math.isfinite(result.grad_norm)


def test_a_restored_state_goes_on_bit_for_bit(tmp_path: Path) -> None:
    engine = opened("fp16", method=LORA)
    state, _ = engine.step(with_scale(engine.init(0), 2.0**60), tiny_batch(0), 1e-2)
    engine.save(with_scale(state, 2.0**10), tmp_path)
    whole = [engine.step(state, tiny_batch(seed), 1e-2)[1] for seed in (1, 2)]
    restored = checkpoint.restore(engine.spec, engine.init(0), tmp_path)
    assert restored.loss_scale == LossScale(value=2.0**10, skipped=1)
    assert [engine.step(restored, tiny_batch(seed), 1e-2)[1] for seed in (1, 2)] == whole


def test_what_cannot_be_scaled_is_refused() -> None:
    from workings.engines.jax.engine import JaxEngine

    request = EngineRequest(shape=tiny_shape("gemma"), device="cpu", precision=PrecisionConfig(compute="fp16"))
    for engine, changes, said in (
            (JaxEngine, {}, "engine jax does not take precision.compute: fp16(?s:.*)engine=torch"),
            (TorchEngine, {"memory": MemoryConfig(optimizer_in_backward=True)}, "optimizer_in_backward"),
            (TorchEngine, {"shape": tiny_shape("qwen3_5")}, "layers that keep a state")):
        with pytest.raises(RequestError, match=said):
            engine.open(replace(request, **changes))
