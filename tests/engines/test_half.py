"""Products in float16: as near to float32 as the format allows, and safe from its overflow."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.engines.tiny import plain_batch, tiny_shape
from workings.config.method import FULL, LoraConfig, MethodConfig, QloraConfig
from workings.config.training import MemoryConfig, PrecisionConfig
from workings.engines.base import EngineRequest
from workings.engines.torch.attention import Attention, in_half, plain_attention
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.half import half_product
from workings.models.batch import Batch

LORA, QLORA = LoraConfig(name="lora"), QloraConfig(name="qlora")
Function = Callable[..., Tensor]
LOSS, NORM, RATE = 1e-3, 1e-2, 1e-3
"""Relative differences to float32 over four updates, and the rate of the updates."""


def tiny_batch(seed: int) -> Batch:
    return plain_batch(tiny_shape(), seed)


def opened(compute: str, family: str = "gemma3", method: MethodConfig = FULL,
           *, in_backward: bool = False) -> TorchEngine:
    return TorchEngine.open(EngineRequest(shape=tiny_shape(family), device="cpu", method=method,
                                          memory=MemoryConfig(optimizer_in_backward=in_backward),
                                          precision=PrecisionConfig.model_validate({"compute": compute})))


@pytest.mark.parametrize(("family", "method"), [
    ("gemma2", FULL), ("llama", FULL), ("gemma4", LORA), ("qwen3_5", LORA),
    *(("gemma3", method) for method in (FULL, LORA, QLORA))])
def test_float16_is_as_float32_within_rounding(family: str, method: MethodConfig) -> None:
    found = {}
    for compute in ("fp32", "fp16"):
        engine = opened(compute, family, method)
        state, results = engine.init(0), []
        # Their random weights amplify any rounding: the norm of a bf16 gradient differs by 15 % and 15 %.
        for seed in range(1 if family in ("gemma4", "qwen3_5") else 4):
            state, result = engine.step(state, tiny_batch(seed), RATE)
            results.append(result)
        found[compute] = results
    for wide, half in zip(found["fp32"], found["fp16"], strict=True):
        assert half.loss == pytest.approx(wide.loss, rel=LOSS)
        assert half.grad_norm == pytest.approx(wide.grad_norm, rel=5 * NORM if family == "gemma4" else NORM)
        assert half.loss != wide.loss  # products are not float32's


@pytest.mark.parametrize("size", [1e-20, 1e12])
def test_neither_inputs_nor_gradients_vanish_or_overflow(size: float) -> None:
    # A gradient of 1e-20 is zero in float16, and one of 1e12 infinite.
    draw = torch.Generator().manual_seed(0)
    x, weight, outer = (torch.randn(*shape, generator=draw) for shape in ((6, 32), (16, 32), (6, 16)))
    x[2] *= 1e6  # Gemma's feed-forward has such rows
    q, k, v, outer_of_heads = torch.randn(4, 2, 3, 5, 16, generator=draw)

    def gradients(function: Function, outer: Tensor, *inputs: Tensor) -> list[Tensor]:
        own = [each.clone().requires_grad_() for each in inputs]
        y = function(*own)
        return [y.detach(), *torch.autograd.grad(y, own, outer * size)]

    def attend(attention: Attention) -> Function:
        return lambda q, k, v: attention(q, k, v, None, 0.25, 0.0)

    for half, wide, outer_of, inputs in (
            (half_product, torch.nn.functional.linear, outer, (x, weight)),
            (attend(in_half(plain_attention)), attend(plain_attention), outer_of_heads, (q, k, v))):
        for found, expected in zip(gradients(half, outer_of, *inputs), gradients(wide, outer_of, *inputs), strict=True):
            assert (found - expected).norm() < 2e-3 * expected.norm()


def test_the_optimizer_in_backward_makes_the_same_update() -> None:
    updated = []
    for in_backward in (False, True):
        engine = opened("fp16", in_backward=in_backward)
        state, result = engine.step(engine.init(0), tiny_batch(0), RATE)
        updated.append((result.loss, {name: weight.detach().clone() for name, weight in state.trained.items()}))
    (loss, plain), (other_loss, in_backward) = updated
    assert loss == other_loss
    assert all(torch.equal(weight, in_backward[name]) for name, weight in plain.items())


def test_a_gradient_that_is_not_finite_is_shown() -> None:
    engine = opened("fp16")
    state = engine.init(0)
    with torch.no_grad():
        next(iter(state.trained.values())).fill_(math.nan)
    _, result = engine.step(state, tiny_batch(0), 1e-2)
    assert not math.isfinite(result.grad_norm)
