"""Loss, mask, clipping and one AdamW step against numbers worked out by hand or in plain NumPy."""

import math

import jax.numpy as jnp
import numpy as np

from tests.engines.tiny import request, tiny_shape
from workings.config.training import AdamWConfig
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.loss import plain_loss_sum, token_losses
from workings.engines.jax.optimizer import AdamW, clip_factor, flat
from workings.models.batch import Batch


def test_loss_of_known_probabilities() -> None:
    """Probabilities 1/2, 1/4, 1/4 cost ln 2, ln 4 and ln 4."""
    logits = jnp.log(jnp.array([[[0.5, 0.25, 0.25]] * 3]))
    got = token_losses(logits, jnp.array([[0, 1, 2]]))
    np.testing.assert_allclose(got[0], [math.log(2), math.log(4), math.log(4)], rtol=1e-6)


def test_only_supervised_positions_count() -> None:
    """Two of four positions count: with zero hidden states every token costs ln V, whatever the targets are."""
    shape = tiny_shape()
    hidden, head = jnp.zeros((1, 4, shape.width)), jnp.ones((shape.vocab_size, shape.width))
    weights = jnp.array([[0.0, 1.0, 0.0, 1.0]])
    got = plain_loss_sum(hidden, head, jnp.array([[3, 1, 4, 1]]), weights, shape)
    np.testing.assert_allclose(got, 2 * math.log(shape.vocab_size), rtol=1e-6)


def test_the_final_soft_cap_is_applied() -> None:
    """One logit of 60 among zeros, capped at 30: 30 * tanh(2)."""
    shape = tiny_shape("gemma2", vocab=2)
    hidden = jnp.zeros((1, 1, shape.width)).at[0, 0, 0].set(1.0)
    head = jnp.zeros((2, shape.width)).at[0, 0].set(60.0)
    got = plain_loss_sum(hidden, head, jnp.array([[1]]), jnp.ones((1, 1)), shape)
    np.testing.assert_allclose(got, math.log1p(math.exp(30 * math.tanh(2.0))), rtol=1e-6)


def test_one_adamw_step_by_hand() -> None:
    """First step: moments are (1 - beta) g and (1 - beta2) g², corrected to g and g², so the update is
    lr * (g / (|g| + eps) + decay * w)."""
    rule = AdamW(AdamWConfig(name="adamw", beta1=0.9, beta2=0.99, epsilon=0.5, weight_decay=0.1), jnp.float32)
    w, g = jnp.array([[2.0, -1.0]]), jnp.array([[0.5, -2.0]])
    new, moments = rule.update("a.weight", w, g, {slot: jnp.zeros_like(w) for slot in rule.slots},
                               jnp.int32(1), jnp.float32(0.1))
    # 2 - 0.1 * (0.5 / (0.5 + 0.5) + 0.1 * 2) = 1.93; -1 - 0.1 * (-2 / 2.5 - 0.1) = -0.91
    np.testing.assert_allclose(new, [[1.93, -0.91]], rtol=1e-6)
    np.testing.assert_allclose(moments["exp_avg"], [[0.05, -0.2]], rtol=1e-6)
    np.testing.assert_allclose(moments["exp_avg_sq"], [[0.0025, 0.04]], rtol=1e-6)


def test_adamw_second_step_and_no_decay_on_norms() -> None:
    """Second step of a vector (no decay): the formula in float64, independent of the code under test."""
    rule = AdamW(AdamWConfig(name="adamw", weight_decay=0.5), jnp.float32)
    w, m, v = np.array([1.0]), 0.0, 0.0
    value, state = jnp.array([1.0], jnp.float32), {slot: jnp.zeros(1) for slot in rule.slots}
    for t, g in ((1, 0.3), (2, -0.7)):
        m, v = 0.9 * m + 0.1 * g, 0.999 * v + 0.001 * g * g
        w = w - 0.01 * (m / (1 - 0.9 ** t)) / (math.sqrt(v / (1 - 0.999 ** t)) + 1e-8)
        value, state = rule.update("model.norm.weight", value, jnp.array([g]), state, jnp.int32(t), jnp.float32(0.01))
    np.testing.assert_allclose(value, w, rtol=1e-6)


def test_clipping_by_hand() -> None:
    """A norm of 5 is brought to 1 by 0.2; a norm of 0.5 stays."""
    assert float(clip_factor(jnp.float32(5.0), 1.0)) == np.float32(0.2)
    assert float(clip_factor(jnp.float32(0.5), 1.0)) == 1.0


def test_a_step_reports_the_loss_before_the_update_and_moves_by_the_learning_rate() -> None:
    """One supervised token: the loss is that token's; AdamW's first update has size lr wherever a gradient is."""
    shape = tiny_shape(vocab=5)
    engine = JaxEngine.open(request(shape))
    state = engine.init(0)
    before = {name: np.asarray(x) for name, x in flat(state["params"]).items()}
    one = np.ones((1, 1, 2), np.int32)
    batch = Batch(tokens=one, targets=one * 3, weights=np.array([[[1.0, 0.0]]], np.float32),
                  positions=np.array([[[0, 1]]], np.int32), segment_ids=one)
    expected = engine.evaluate(state, batch)
    state, result = engine.step(state, batch, 1e-3)
    assert expected.supervised_tokens == 1
    np.testing.assert_allclose(result.loss, expected.loss_sum, rtol=1e-6)
    moved = {name: np.abs(np.asarray(x) - before[name]) for name, x in flat(state["params"]).items()}
    assert max(x.max() for x in moved.values()) <= 1.001e-3
    changed = sum(int((x > 0).sum()) for x in moved.values()) / sum(x.size for x in moved.values())
    np.testing.assert_allclose(result.share_of_weights_changed, changed, rtol=1e-6)
