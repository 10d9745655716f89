"""One table of numbers worked out by hand or in plain float64, for both engines: updates, clipping, a step.

`Jax` and `Torch` translate the table into each engine's own calls and hold no numbers.
"""

import math
from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
import torch

from tests.engines.tiny import request, tiny_shape
from workings.config.training import AdafactorConfig, AdamWConfig
from workings.engines.jax import optimizers as jax_optimizers
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.optimizers import clip_factor as jax_clip_factor
from workings.engines.jax.params_tree import flatten_params
from workings.engines.torch import optimizers as torch_optimizers
from workings.engines.torch.engine import TorchEngine
from workings.engines.torch.optimizers import update_tensor
from workings.engines.torch.optimizers.base import UpdateContext
from workings.engines.torch.optimizers.base import clip_factor as torch_clip_factor
from workings.models.batch import Batch


def adamw_in_float64(start: float, grads: list[float], rate: float) -> float:
    """The formula, independent of the code under test."""
    m = v = 0.0
    for t, g in enumerate(grads, 1):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        start -= rate * (m / (1 - 0.9 ** t)) / (math.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
    return start


updates = pytest.mark.parametrize(("config", "name", "start", "grads", "rate", "expected", "moments"), [
    # First step: moments are (1 - beta) g and (1 - beta2) g², corrected to g and g².
    # 2 - 0.1 * (0.5 / (0.5 + 0.5) + 0.1 * 2) = 1.93; -1 - 0.1 * (-2 / 2.5 - 0.1) = -0.91
    pytest.param(
        AdamWConfig(name="adamw", beta1=0.9, beta2=0.99, epsilon=0.5, weight_decay=0.1), "a.weight", [[2.0, -1.0]],
        [[[0.5, -2.0]]], 0.1, [[1.93, -0.91]], {"exp_avg": [[0.05, -0.2]], "exp_avg_sq": [[0.0025, 0.04]]},
        id="one step of AdamW with decay"),
    pytest.param(
        AdamWConfig(name="adamw", weight_decay=0.5), "model.norm.weight", [1.0], [[0.3], [-0.7]], 0.01,
        [adamw_in_float64(1.0, [0.3, -0.7], 0.01)], {"exp_avg": [0.9 * 0.03 - 0.07]},
        id="two steps of a vector, which does not decay"),
    # First step: decay is 0, so rows hold the means (1 + 9) / 2 = 5 and (4 + 36) / 2 = 20, columns 2.5 and 22.5.
    # Factors are 1 / sqrt(row / mean of rows * column) = 1 / sqrt(5 / 12.5 * 2.5) = 1, 1/3, 1/2, 1/6; the update is
    # therefore 1 everywhere, of root mean square 1, which the threshold of 0.5 halves; the decay adds 0.5.
    pytest.param(
        AdafactorConfig(name="adafactor", clip_threshold=0.5, weight_decay=0.5), "a.weight", [[1.0, 1.0], [1.0, 1.0]],
        [[[1.0, 3.0], [2.0, 6.0]]], 0.1, [[0.9, 0.9], [0.9, 0.9]],
        {"exp_avg_sq_row": [5.0, 20.0], "exp_avg_sq_col": [2.5, 22.5]},
        id="one step of Adafactor with decay, clipped by its own size"),
])
"""A tensor, its gradients step by step, and what comes out."""


class Jax:
    """The table in the JAX engine's calls."""

    engine = JaxEngine

    @staticmethod
    def update(config: Any, name: str, start: Any, grads: list[Any], rate: float) -> tuple[Any, dict[str, Any]]:
        optimizer = jax_optimizers.make_optimizer(config, jnp.float32)
        value = jnp.asarray(start, jnp.float32)
        moments = {slot: tree[name] for slot, tree in optimizer.init({name: value}).items() if name in tree}
        for step, grad in enumerate(grads, 1):
            value, moments = optimizer.update(name, value, jnp.asarray(grad, jnp.float32), moments, jnp.int32(step),
                                              jnp.float32(rate))
        return value, moments

    @staticmethod
    def clip(norm: float, limit: float) -> float:
        return float(jax_clip_factor(jnp.float32(norm), limit))

    @staticmethod
    def weights(state: Any) -> dict[str, np.ndarray]:
        return {name: np.asarray(x) for name, x in flatten_params(state["params"]).items()}


class Torch:
    """The table in the PyTorch engine's calls."""

    engine = TorchEngine

    @staticmethod
    def update(config: Any, name: str, start: Any, grads: list[Any], rate: float) -> tuple[Any, dict[str, Any]]:
        optimizer = torch_optimizers.make_optimizer(config, torch.float32)
        value = torch.tensor(start)
        moments = optimizer.init(value)
        for step, grad in enumerate(grads, 1):
            update_tensor(optimizer, name, value, torch.tensor(grad), moments,
                          UpdateContext(step=step, learning_rate=rate))
        return value, moments

    @staticmethod
    def clip(norm: float, limit: float) -> float:
        return float(torch_clip_factor(torch.tensor(norm), limit))

    @staticmethod
    def weights(state: Any) -> dict[str, np.ndarray]:
        return {name: x.detach().numpy().copy() for name, x in state.trained.items()}


both = pytest.mark.parametrize("engine", [Jax, Torch])


@both
@updates
def test_updates(engine: Any, config: Any, name: str, start: Any, grads: Any, rate: float, expected: Any,
                 moments: dict[str, Any]) -> None:
    value, found = engine.update(config, name, start, grads, rate)
    np.testing.assert_allclose(value, expected, rtol=1e-6)
    for slot, x in moments.items():
        np.testing.assert_allclose(found[slot], x, rtol=1e-6)


@both
def test_clipping(engine: Any) -> None:
    """A norm of 5 is brought to 1 by 0.2; a norm of 0.5 stays; a norm of 0 is no division by zero."""
    assert engine.clip(5.0, 1.0) == np.float32(0.2)
    assert engine.clip(0.5, 1.0) == 1.0
    assert engine.clip(0.0, 1.0) == 1.0


@pytest.mark.slow
@both
def test_a_step_reports_the_loss_before_the_update_and_moves_by_the_learning_rate(engine: Any) -> None:
    """One supervised token: the loss is that token's; AdamW's first update has size lr wherever a gradient is."""
    opened = engine.engine.open(request(tiny_shape(vocab=5)))
    state = opened.init(0)
    before = engine.weights(state)
    one = np.ones((1, 1, 2), np.int32)
    batch = Batch(tokens=one, targets=one * 3, loss_mask=np.array([[[1.0, 0.0]]], np.float32),
                  positions=np.array([[[0, 1]]], np.int32), segment_ids=one)
    expected = opened.evaluate(state, batch)
    state, result = opened.step(state, batch, 1e-3)
    assert expected.supervised_tokens == 1
    np.testing.assert_allclose(result.loss, expected.loss_sum, rtol=1e-6)
    moved = {name: np.abs(x - before[name]) for name, x in engine.weights(state).items()}
    assert max(x.max() for x in moved.values()) <= 1.001e-3
    changed = sum(int((x > 0).sum()) for x in moved.values()) / sum(x.size for x in moved.values())
    np.testing.assert_allclose(result.share_of_weights_changed, changed, rtol=1e-6)
