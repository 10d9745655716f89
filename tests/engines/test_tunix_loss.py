"""The policy gradient against Tunix's own loss function, on the same log probabilities, masks and advantages."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from workings.engines.jax.objective import ARRAY
from workings.objectives.policy_gradient import ADVANTAGE, BEHAVIOR, REFERENCE, PolicyGradient

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

ROWS, LENGTH = 6, 7


@dataclass(frozen=True, kw_only=True)
class Case:
    """The same loss in their words and in ours."""

    section: str
    """Tunix's class of settings."""
    theirs: dict[str, Any]
    ours: PolicyGradient
    divisor: str
    """What our sum is divided by: `rows`, `tokens`, or `room` for tokens."""


CASES = {
    "grpo": Case(section="GRPOConfig", theirs={"beta": 0.0, "epsilon": 0.2}, ours=PolicyGradient(normalize="sequences"),
                 divisor="rows"),
    "grpo with a reference": Case(
        section="GRPOConfig", theirs={"beta": 0.04, "epsilon": 0.2, "kl_loss_mode": "low_var_kl"},
        ours=PolicyGradient(normalize="sequences", kl_beta=0.04), divisor="rows"),
    "gspo": Case(section="GRPOConfig", theirs={"beta": 0.0, "epsilon": 0.05, "loss_algo": "gspo-token"},
                 ours=PolicyGradient(ratio="sequence", normalize="sequences", clip_low=0.05, clip_high=0.05),
                 divisor="rows"),
    "dr_grpo": Case(section="DrGRPOConfig", theirs={"beta": 0.0, "epsilon": 0.2}, ours=PolicyGradient(),
                    divisor="room"),
    "dapo": Case(section="DAPOConfig", theirs={}, ours=PolicyGradient(clip_high=0.28), divisor="tokens"),
}


def settings(section: str, values: dict[str, Any]) -> Any:
    """One of Tunix's classes of settings; a test that needs them is skipped where Tunix is not installed."""
    pytest.importorskip("tunix", reason="google-tunix is not installed")
    from tunix.rl.grpo import dapo_learner, drgrpo_learner, grpo_learner

    modules = {"GRPOConfig": grpo_learner, "DrGRPOConfig": drgrpo_learner, "DAPOConfig": dapo_learner}
    made = getattr(modules[section], section)(**values)
    # The learner sets it before it asks for the loss; the classes of settings do not have it.
    made.temperature = 1.0
    return made


@pytest.mark.parametrize("name", CASES)
def test_loss_and_derivative_equal_tunix(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its whole loss function runs; only the model's log probabilities are put in place of a model's."""
    case = CASES[name]
    asked = settings(case.section, case.theirs)
    from flax import nnx
    from tunix.rl import algo_core, function_registry

    draw = np.random.default_rng(3)
    mask = (np.arange(LENGTH) < draw.integers(1, LENGTH + 1, (ROWS, 1))).astype(np.float32)
    now = -draw.exponential(size=(ROWS, LENGTH)).astype(np.float32)
    then, reference = ((now + draw.normal(size=now.shape) * 0.3).astype(np.float32) for _ in range(2))
    advantages = draw.normal(size=ROWS).astype(np.float32)
    example = SimpleNamespace(
        prompt_ids=np.zeros((ROWS, 1), np.int32), completion_ids=np.zeros((ROWS, LENGTH), np.int32),
        completion_mask=jnp.asarray(mask), advantages=jnp.asarray(advantages), old_per_token_logps=jnp.asarray(then),
        ref_per_token_logps=jnp.asarray(reference) if case.ours.kl_beta else None)
    loss = function_registry.get_policy_loss_fn(asked.policy_loss_fn)
    logits = jnp.zeros((ROWS, LENGTH, 2))

    def theirs(log_probs: jax.Array) -> tuple[jax.Array, dict[str, jax.Array]]:
        monkeypatch.setattr(algo_core.common, "compute_per_token_logps", lambda *_, **__: (log_probs, logits))
        found: tuple[jax.Array, dict[str, jax.Array]] = loss(nnx.Dict(), example, asked, pad_id=0, eos_id=1)
        return found

    signals = {ADVANTAGE: jnp.repeat(advantages[:, None], LENGTH, 1), BEHAVIOR: then, REFERENCE: reference}
    divisor = {"rows": ROWS, "tokens": float(mask.sum()), "room": ROWS * LENGTH}[case.divisor]

    def ours(log_probs: jax.Array) -> tuple[jax.Array, Any]:
        terms = case.ours.terms(ARRAY, log_probs * mask, jnp.asarray(mask), signals)
        return terms.total / divisor, {key: x / count for key, (x, count) in terms.metrics.items()}

    (expected, aux), derivative = jax.value_and_grad(theirs, has_aux=True)(jnp.asarray(now))
    (found, metrics), gradient = jax.value_and_grad(ours, has_aux=True)(jnp.asarray(now))
    assert abs(float(expected)) > 0.01
    assert float(found) == pytest.approx(float(expected), rel=1e-6, abs=1e-6)
    np.testing.assert_allclose(gradient, derivative, atol=1e-6)
    assert float(metrics["clip_fraction"]) == pytest.approx(float(aux["pg_clipfrac"]), abs=1e-6)
    assert float(metrics["clip_fraction"]) > 0
    if case.ours.kl_beta:
        assert float(metrics["kl_reference"]) == pytest.approx(float(aux["kl"]), rel=1e-5)
