"""Adafactor against transformers', rounding of bfloat16 weights, and what both do to a small model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from tests.engines.tiny import random_batch, request, tiny_shape
from workings.config.training import AdafactorConfig, AdamWConfig, PrecisionConfig
from workings.engines.jax.engine import JaxEngine
from workings.engines.jax.optimizer import Adafactor
from workings.engines.jax.rounding import round_key, stochastic_bfloat16
from workings.errors import RequestError


def test_adafactor_equals_transformers_over_ten_steps() -> None:
    """A stack of two matrices (two tensors there), and a vector; gradients of very different sizes."""
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers").Adafactor
    draw = np.random.default_rng(0)
    start = {"layers.a.weight": draw.normal(size=(2, 6, 9)), "model.norm.weight": draw.normal(size=5)}
    parameters = [torch.nn.Parameter(torch.tensor(x, dtype=torch.float32))
                  for x in (start["layers.a.weight"][0], start["layers.a.weight"][1], start["model.norm.weight"])]
    oracle = theirs(parameters, lr=3e-2, scale_parameter=False, relative_step=False, warmup_init=False,
                    eps=(1e-30, 1e-3), clip_threshold=1.0, decay_rate=-0.8, weight_decay=0.0)
    rule = Adafactor(AdafactorConfig(name="adafactor"), jnp.float32)
    values = {name: jnp.asarray(x, jnp.float32) for name, x in start.items()}
    moments = rule.init(values)
    for step in range(1, 11):
        grads = {name: draw.normal(size=x.shape).astype(np.float32) * 10.0 ** -(step % 4) for name, x in start.items()}
        flat_grads = (*grads["layers.a.weight"], grads["model.norm.weight"])
        for parameter, grad in zip(parameters, flat_grads, strict=True):
            parameter.grad = torch.tensor(grad)
        oracle.step()
        for name in values:
            mine = {slot: moments[slot][name] for slot in moments if name in moments[slot]}
            values[name], mine = rule.update(name, values[name], jnp.asarray(grads[name]), mine, jnp.int32(step),
                                             jnp.float32(3e-2))
            for slot, x in mine.items():
                moments[slot][name] = x
    for mine, parameter in zip((*values["layers.a.weight"], values["model.norm.weight"]), parameters, strict=True):
        np.testing.assert_allclose(mine, parameter.detach().numpy(), atol=1e-6, rtol=1e-6)
    assert moments["exp_avg_sq_row"]["layers.a.weight"].shape == (2, 6)
    assert moments["exp_avg_sq_col"]["layers.a.weight"].shape == (2, 9)


def test_stochastic_rounding_keeps_the_mean_and_known_values() -> None:
    """1 + 2^-9 lies a quarter of the way from 1 to the next bfloat16, 1 + 2^-7: one in four goes up."""
    x = jnp.full(40_000, 1 + 2.0 ** -9, jnp.float32)
    got = np.asarray(stochastic_bfloat16(x, jax.random.key(0)).astype(jnp.float32))
    assert set(got) == {1.0, 1 + 2.0 ** -7}
    # Binomial(40000, 1/4): the standard deviation of the share is 0.0022.
    assert abs((got > 1).mean() - 0.25) < 5 * 0.0022
    exact = jnp.array([0.0, -0.5, 3.0, jnp.inf, -jnp.inf, jnp.nan])
    np.testing.assert_array_equal(stochastic_bfloat16(exact, jax.random.key(1)).astype(jnp.float32), exact)


def test_rounding_noise_differs_by_step_and_tensor_and_repeats() -> None:
    keys = [round_key(0, jnp.int32(s), n) for s, n in ((1, "a"), (2, "a"), (1, "b"), (1, "a"))]
    first, second, third, again = (np.asarray(jax.random.key_data(key)).tolist() for key in keys)
    assert first == again
    assert first != second
    assert first != third


def test_at_a_usual_rate_nearest_stands_still_and_the_others_learn() -> None:
    """bfloat16 weights at 1e-5: most nearest updates vanish; stochastic and master keep the mean progress of fp32.

    Measured as the fall of the loss over 60 steps on one batch, against the same run in fp32.
    """
    shape, batch = tiny_shape(), random_batch(tiny_shape(), rows=8)
    fall, changed = {}, {}
    for rounding in ("fp32", "nearest", "stochastic", "master_fp32"):
        precision = PrecisionConfig() if rounding == "fp32" else PrecisionConfig(parameters="bf16", rounding=rounding)
        engine = JaxEngine.open(request(shape, precision=precision))
        state, results = engine.init(0), []
        for _ in range(60):
            state, result = engine.step(state, batch, 1e-5)
            results.append(result)
        final = engine.evaluate(state, batch)
        fall[rounding] = results[0].loss - final.loss_sum / final.supervised_tokens
        changed[rounding] = float(np.mean([result.share_of_weights_changed for result in results]))
    assert fall["fp32"] > 0.005
    assert fall["nearest"] < 0.35 * fall["fp32"]
    assert abs(fall["stochastic"] - fall["fp32"]) < 0.25 * fall["fp32"]
    assert abs(fall["master_fp32"] - fall["fp32"]) < 0.25 * fall["fp32"]
    assert changed["nearest"] < 0.1 < changed["fp32"]


def test_stochastic_runs_repeat_and_resume_bit_for_bit(tmp_path) -> None:
    precision = PrecisionConfig(parameters="bf16", compute="bf16", moments="bf16", rounding="stochastic")
    optimizer = AdafactorConfig(name="adafactor", clip_norm=1.0)
    engine = JaxEngine.open(request(tiny_shape(), precision=precision, optimizer=optimizer))
    batch = random_batch(engine.spec.shape)
    state, _ = engine.step(engine.init(0), batch, 1e-3)
    engine.save(state, tmp_path)
    straight, first = engine.step(state, batch, 1e-3)
    resumed, second = engine.step(engine.restore(tmp_path), batch, 1e-3)
    assert first == second
    assert all(np.asarray(x).tobytes() == np.asarray(y).tobytes()
               for x, y in zip(jax.tree.leaves(straight), jax.tree.leaves(resumed), strict=True))


def test_rounding_without_bf16_weights_is_refused() -> None:
    with pytest.raises(RequestError, match="stochastic with fp32"):
        JaxEngine.open(request(tiny_shape(), precision=PrecisionConfig(rounding="stochastic")))


def test_weight_decay_spares_norms() -> None:
    rule = Adafactor(AdafactorConfig(name="adafactor", weight_decay=0.5), jnp.float32)
    value = {"a.weight": jnp.ones((2, 2)), "model.norm.weight": jnp.ones(2)}
    for name, x in value.items():
        moments = {slot: tree[name] for slot, tree in rule.init(value).items() if name in tree}
        new, _ = rule.update(name, x, jnp.zeros_like(x), moments, jnp.int32(1), jnp.float32(0.1))
        np.testing.assert_allclose(new, 0.95 if x.ndim == 2 else 1.0, rtol=1e-6)


def test_adamw_is_a_choice_of_the_recipe() -> None:
    assert JaxEngine.open(request(tiny_shape())).spec.optimizer.slots == ("exp_avg", "exp_avg_sq")
    assert isinstance(request(tiny_shape()).optimizer, AdamWConfig)
