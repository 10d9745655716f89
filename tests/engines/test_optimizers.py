"""Rounding of bfloat16 weights, and Muon against optax's. Adafactor is compared with PyTorch's by `test_parity.py`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workings.config.training import MuonConfig
from workings.engines.jax.init import tensor_key
from workings.engines.jax.optimizers import Muon
from workings.engines.jax.step import round_keys, stochastic_bfloat16

pytestmark = pytest.mark.slow


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

    draw = np.random.default_rng(0)
    sizes = {"layers.a.weight": (2, 6, 9), "layers.b.weight": (2, 9, 4), "model.embed_tokens.weight": (7, 4)}
    start = {name: jnp.asarray(draw.normal(size=size), jnp.float32) for name, size in sizes.items()}
    gradients = [{name: jnp.asarray(draw.normal(size=size) * 10.0 ** -(step % 3), jnp.float32)
                  for name, size in sizes.items()} for step in range(5)]
    numbers = {name: MuonDimensionNumbers(2, 1) if name.startswith("layers.") else None for name in sizes}
    optimizer = Muon(MuonConfig(name="muon", weight_decay=0.1, adjust_lr=adjust_lr), jnp.float32)
    update, slots = jax.jit(optimizer.update, static_argnums=0), optimizer.init(start)
    for name in sizes:
        oracle = optax.adamw(3e-2, weight_decay=0.1) if numbers[name] is None else optax.contrib.muon(
            3e-2, weight_decay=0.1, muon_weight_dimension_numbers={name: numbers[name]}, consistent_rms=consistent_rms)
        ours, theirs = start[name], {name: start[name]}
        state, their_update = oracle.init(theirs), jax.jit(oracle.update)
        moments = {slot: tree[name] for slot, tree in slots.items() if name in tree}
        assert set(moments) == ({"exp_avg", "exp_avg_sq"} if numbers[name] is None else {"momentum_buffer"})
        for step, grads in enumerate(gradients, start=1):
            updates, state = their_update({name: grads[name]}, state, theirs)
            theirs = optax.apply_updates(theirs, updates)
            ours, moments = update(name, ours, grads[name], moments, jnp.int32(step), jnp.float32(3e-2))
        np.testing.assert_allclose(ours, theirs[name], atol=1e-6, rtol=1e-6, err_msg=name)
