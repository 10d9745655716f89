"""Adafactor against transformers', rounding of bfloat16 weights, and what both do to a small model."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workings.config.training import AdafactorConfig, MuonConfig
from workings.engines.jax.init import tensor_key
from workings.engines.jax.optimizers import Adafactor, Muon, Optimizer
from workings.engines.jax.step import round_keys, stochastic_bfloat16

pytestmark = pytest.mark.slow


def after(optimizer: Optimizer, values: dict, gradients: list[dict], rate: float) -> tuple[dict, dict]:
    """Values and moments after updates with these gradients, as the engine's step does them."""
    @jax.jit
    def update(values: dict, moments: dict, grads: dict, step: jax.Array) -> tuple[dict, dict]:
        new, kept = {}, {slot: {} for slot in moments}
        for name in values:
            mine = {slot: moments[slot][name] for slot in moments if name in moments[slot]}
            new[name], mine = optimizer.update(name, values[name], grads[name], mine, step, jnp.float32(rate))
            for slot, x in mine.items():
                kept[slot][name] = x
        return new, kept

    moments = optimizer.init(values)
    for step, grads in enumerate(gradients, start=1):
        values, moments = update(values, moments, grads, jnp.int32(step))
    return values, moments


def drawn(sizes: dict[str, tuple[int, ...]], steps: int, period: int) -> tuple[dict, list[dict]]:
    """Values, and gradients of very different sizes."""
    draw = np.random.default_rng(0)

    def tensors(scale: float) -> dict:
        return {name: jnp.asarray(draw.normal(size=size) * scale, jnp.float32) for name, size in sizes.items()}

    return tensors(1.0), [tensors(10.0 ** -(step % period)) for step in range(steps)]


def test_adafactor_equals_transformers_over_ten_steps() -> None:
    """A stack of two matrices (two tensors there), and a vector."""
    torch = pytest.importorskip("torch")
    theirs = pytest.importorskip("transformers").Adafactor
    stack, norm = "layers.a.weight", "model.norm.weight"
    start, gradients = drawn({stack: (2, 6, 9), norm: (5,)}, 10, 4)
    parameters = [torch.nn.Parameter(torch.tensor(np.asarray(x))) for x in (*start[stack], start[norm])]
    oracle = theirs(parameters, lr=3e-2, scale_parameter=False, relative_step=False, warmup_init=False,
                    eps=(1e-30, 1e-3), clip_threshold=1.0, decay_rate=-0.8, weight_decay=0.0)
    for grads in gradients:
        for parameter, grad in zip(parameters, (*grads[stack], grads[norm]), strict=True):
            parameter.grad = torch.tensor(np.asarray(grad))
        oracle.step()
    values, moments = after(Adafactor(AdafactorConfig(name="adafactor"), jnp.float32), start, gradients, 3e-2)
    for mine, parameter in zip((*values[stack], values[norm]), parameters, strict=True):
        np.testing.assert_allclose(mine, parameter.detach().numpy(), atol=1e-6, rtol=1e-6)
    assert moments["exp_avg_sq_row"][stack].shape == (2, 6)
    assert moments["exp_avg_sq_col"][stack].shape == (2, 9)


def test_stochastic_rounding_keeps_the_mean_and_known_values() -> None:
    """1 + 2^-9 is a quarter of the way from 1 to the next bfloat16, 1 + 2^-7: one in four goes up."""
    x = jnp.full(40_000, 1 + 2.0 ** -9, jnp.float32)
    got = np.asarray(stochastic_bfloat16(x, jax.random.key(0)).astype(jnp.float32))
    assert set(got) == {1.0, 1 + 2.0 ** -7}
    # Binomial(40000, 1/4): the standard deviation of the share is 0.0022.
    assert abs((got > 1).mean() - 0.25) < 5 * 0.0022
    exact = jnp.array([0.0, -0.5, 3.0, jnp.inf, -jnp.inf, jnp.nan])
    np.testing.assert_array_equal(stochastic_bfloat16(exact, jax.random.key(1)).astype(jnp.float32), exact)


def test_rounding_noise_differs_by_step_and_tensor_and_repeats() -> None:
    def keys_of(step: int, *names: str) -> list[list[int]]:
        keys = jax.jit(lambda step: round_keys(0, step, names))(jnp.int32(step))
        return [np.asarray(jax.random.key_data(keys[name])).tolist() for name in names]

    first, third = keys_of(1, "a", "b")
    assert first != third
    assert keys_of(1, "a") == [first]
    assert keys_of(2, "a") != [first]
    # Sealed runs were sampled by these very keys.
    assert first == np.asarray(jax.random.key_data(jax.random.fold_in(tensor_key(0, "rounding of a"), 1))).tolist()


@pytest.mark.parametrize(("adjust_lr", "consistent_rms"), [("match_rms_adamw", 0.2), ("original", None)])
def test_muon_equals_optax_over_five_steps(adjust_lr: str, consistent_rms: float | None) -> None:
    """Wide and tall matrices of a stack: optax's own muon, to 1e-6; an embedding: its AdamW (in its muon, NAdam)."""
    optax = pytest.importorskip("optax")
    from optax.contrib import MuonDimensionNumbers

    sizes = {"layers.a.weight": (2, 6, 9), "layers.b.weight": (2, 9, 4), "model.embed_tokens.weight": (7, 4)}
    start, gradients = drawn(sizes, 5, 3)
    numbers = {name: MuonDimensionNumbers(2, 1) if name.startswith("layers.") else None for name in sizes}
    theirs = {}
    for oracle, part in ((optax.contrib.muon(3e-2, weight_decay=0.1, muon_weight_dimension_numbers=numbers,
                                             consistent_rms=consistent_rms), "layers."),
                         (optax.adamw(3e-2, weight_decay=0.1), "model.")):
        values, update = dict(start), jax.jit(oracle.update)
        state = oracle.init(values)
        for grads in gradients:
            updates, state = update(grads, state, values)
            values = optax.apply_updates(values, updates)
        theirs |= {name: x for name, x in values.items() if name.startswith(part)}
    optimizer = Muon(MuonConfig(name="muon", weight_decay=0.1, adjust_lr=adjust_lr), jnp.float32)
    ours, moments = after(optimizer, start, gradients, 3e-2)
    for name in sizes:
        np.testing.assert_allclose(ours[name], theirs[name], atol=1e-6, rtol=1e-6, err_msg=name)
    assert set(moments["momentum_buffer"]) == {"layers.a.weight", "layers.b.weight"}
    assert set(moments["exp_avg"]) == set(moments["exp_avg_sq"]) == set(sizes) - set(moments["momentum_buffer"])
