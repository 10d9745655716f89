"""`memory.cpu_optimizations` on and off give the same losses, gradients and steps; off is what accelerators run."""

from dataclasses import replace
from typing import Any

import jax
import numpy as np
import pytest

from tests.engines.tiny import random_batch, request, tiny_shape
from workings.config.method import LoraConfig
from workings.config.training import AdafactorConfig, MemoryConfig, PrecisionConfig
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.sharding import make_layout
from workings.engines.jax.spec import build_spec
from workings.engines.torch.engine import TorchEngine
from workings.models.batch import Batch
from workings.objectives.policy_gradient import PolicyGradient
from workings.testing import UnigramEngine

SHAPE = tiny_shape("gemma2", layers=3)


def packed(length: int = 24) -> Batch:
    """Rows of six segments, a few positions of each supervised."""
    batch = random_batch(SHAPE, rows=4, length=length, seed=5)
    index = np.arange(length)
    supervised = (index % 4 == 1) * np.ones((1, 4, 1), np.float32)
    whole = np.ones((1, 4, 1), np.int32)
    batch = replace(batch, segment_ids=(index // 4 + 1).astype(np.int32) * whole,
                    positions=(index % 4).astype(np.int32) * whole, loss_mask=supervised.astype(np.float32))
    return batch.with_loss_positions(length // 4)


CASES: dict[str, dict[str, Any]] = {
    "adamw": {}, "adafactor and remat": {"optimizer": AdafactorConfig(name="adafactor", clip_norm=0.5),
                                         "memory": MemoryConfig(remat="layer")},
    "lora": {"method": LoraConfig(name="lora", rank=2)}, "chunked": {"memory": MemoryConfig(attention="chunked")},
    "master": {"precision": PrecisionConfig(parameters="bf16", rounding="master_fp32")}}


@pytest.mark.slow
@pytest.mark.parametrize("case", [pytest.param(name, marks=() if name == "adafactor and remat"
                                               else pytest.mark.full) for name in CASES])
@pytest.mark.parametrize("engine", [JaxEngine, TorchEngine], ids=["jax", "torch"])
def test_on_and_off_take_the_same_steps(engine: Any, case: str, tmp_path: Any) -> None:
    """Losses and gradient norms of two steps, held-out loss, log probabilities, and a checkpoint of the other's."""
    batch, found, opened = packed(), [], []
    for on in (False, True):
        one = engine.open(request(SHAPE, cpu_optimizations=on, **CASES[case]))
        state, numbers = one.init(0), []
        for _ in range(2):
            state, result = one.step(state, batch, 1e-3)
            numbers += [result.loss, result.grad_norm]
        numbers.append(one.evaluate(state, batch).loss_sum)
        found.append((numbers, one.log_probs(state, batch)))
        opened.append((one, state))
    assert found[1][0] == pytest.approx(found[0][0], rel=2e-4)
    np.testing.assert_allclose(found[1][1], found[0][1], atol=2e-3)
    (off, state), (on_engine, _) = opened
    off.save(state, tmp_path)
    again = on_engine.restore(tmp_path)
    assert on_engine.evaluate(again, batch).loss_sum == pytest.approx(found[0][0][-1], rel=1e-5)
    assert on_engine.step(again, batch, 1e-3)[1].loss == pytest.approx(off.step(state, batch, 1e-3)[1].loss, rel=2e-4)


def test_off_and_on_other_platforms_a_step_is_the_one_of_accelerators() -> None:
    layout = make_layout(tuple(jax.devices("cpu")[:1]), 1, 1)
    specs = {(platform, on): build_spec(request(SHAPE, cpu_optimizations=on), layout, platform)
             for platform in ("cpu", "gpu") for on in (False, True)}
    assert [key for key, spec in specs.items() if spec.at_loss_positions] == [("cpu", True)]
    spec = TorchEngine.open(request(SHAPE, objective=PolicyGradient())).spec
    assert (spec.group_by_length, spec.share_prefixes) == (False, False)


def test_an_engine_without_any_takes_both_values() -> None:
    for on in (False, True):
        UnigramEngine.open(request(SHAPE, cpu_optimizations=on))
