"""Policy gradients for completions that the model has sampled: PPO's clipped ratio and its variants.

GRPO, RLOO, Dr. GRPO, DAPO, GSPO and CISPO differ in their advantages (computed above the engine), in the weights of
long and short rows (``normalize`` and `Batch.divisor`), and in the bound of the ratio of new to old probability.

Sources: PPO, arXiv 1707.06347; GRPO, 2402.03300; Dr. GRPO, 2503.20783; DAPO, 2503.14476; CISPO, 2506.13585; GSPO,
2507.18071; the estimate of the divergence, http://joschu.net/blog/kl-approx.html (k3).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from workings.errors import RequestError
from workings.objectives.base import Array, ArrayFunctions, Objective, OfCompletions, Terms

LARGEST_LOG_RATIO = 20.0
"""Bound of the absolute log ratio, in nats, without a derivative beyond it. In float32 ``exp(89)`` is infinite, and one
such token would make the gradient of a whole step NaN."""
ADVANTAGE, BEHAVIOR, REFERENCE = "advantage", "behavior_log_prob", "reference_log_prob"
"""Signals: the advantage of the completion; the log probability of each token when it was sampled, and under the
reference model."""


@dataclass(frozen=True, kw_only=True)
class PolicyGradient(OfCompletions):
    """Negative advantage times the bounded ratio of a token's probability now to that when it was sampled."""

    name: ClassVar[str] = "policy_gradient"
    rows_may_move: ClassVar[bool] = True

    clip_low: float = 0.2
    """The ratio is bounded from below by ``1 - clip_low``."""
    clip_high: float = 0.2
    """The ratio is bounded from above by ``1 + clip_high``."""
    ratio: Literal["token", "sequence"] = "token"
    """`token`: ratio of each token (PPO). `sequence`: geometric mean over the tokens of a row (GSPO)."""
    bound: Literal["pessimistic", "detached"] = "pessimistic"
    """`pessimistic`: the smaller gain of bounded and unbounded ratio; tokens beyond the bound have no gradient (PPO).
    `detached`: the bounded ratio is a constant weight of the log probability; every token has a gradient (CISPO)."""
    normalize: Literal["tokens", "sequences"] = "tokens"
    """`tokens`: all tokens have the same weight. `sequences`: all rows have the same weight (GRPO)."""
    kl_beta: float = 0.0
    """Weight of the divergence from the reference; 0: no reference is needed."""
    temperature: float = 1.0
    """Sampling temperature. All log probabilities are those of ``softmax(logits / temperature)``, as in TRL and verl,
    so that the ratio of a new completion is 1."""

    def __post_init__(self) -> None:
        if not (0 < self.clip_low <= 1 and self.clip_high > 0 and self.kl_beta >= 0 and self.temperature > 0):
            raise RequestError(
                f"clip_low {self.clip_low:g}, clip_high {self.clip_high:g}, kl_beta {self.kl_beta:g} or "
                f"temperature {self.temperature:g} is out of range",
                "clip_low above 0 and at most 1, clip_high above 0, kl_beta of at least 0, temperature above 0")
        if self.ratio == "sequence" and self.normalize != "sequences":
            raise RequestError("a ratio of whole sequences cannot be normalized by tokens",
                               "normalize sequences: the ratio is one number a row")

    @property
    def signals(self) -> tuple[str, ...]:
        """Names of the `Batch.signals` that it needs."""
        return (ADVANTAGE, BEHAVIOR, REFERENCE) if self.kl_beta else (ADVANTAGE, BEHAVIOR)

    @property
    def metrics(self) -> tuple[str, ...]:
        """Names of `Terms.metrics`.

        ``clip_fraction``: share of tokens beyond the bound. ``entropy``: estimated by the mean negative log
        probability. ``kl_behavior``, ``kl_reference``: divergences in nats.
        """
        names = ("clip_fraction", "entropy", "kl_behavior")
        return (*names, "kl_reference") if self.kl_beta else names

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        advantage, tokens_B1 = signals[ADVANTAGE], mask_BS.sum(-1, keepdims=True)
        # Sums to 1 over each row; a row without supervised tokens has 0.
        share = mask_BS / (tokens_B1 + (tokens_B1 == 0))
        log_ratio = (log_probs_BS - signals[BEHAVIOR]) * mask_BS
        if self.ratio == "sequence":
            # The mean over a row's tokens, for each of these tokens.
            log_ratio = (log_ratio * share).sum(-1, keepdims=True) * mask_BS
        ratio = array.exp(array.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO))
        bounded = array.clip(ratio, 1 - self.clip_low, 1 + self.clip_high)
        if self.bound == "pessimistic":
            # PPO, equation 7.
            gain = array.minimum(ratio * advantage, bounded * advantage)
            beyond = ratio * advantage > bounded * advantage
        else:
            gain = array.stop_gradient(bounded) * advantage * log_probs_BS
            beyond = ratio != bounded
        loss = -gain
        count = mask_BS.sum()
        sums = {"clip_fraction": (beyond * mask_BS).sum(), "entropy": -(log_probs_BS * mask_BS).sum(),
                "kl_behavior": _divergence(array, (signals[BEHAVIOR] - log_probs_BS) * mask_BS).sum()}
        if self.kl_beta:
            divergence = _divergence(array, (signals[REFERENCE] - log_probs_BS) * mask_BS)
            loss = loss + self.kl_beta * divergence
            sums["kl_reference"] = divergence.sum()
        weight = share if self.normalize == "sequences" else mask_BS
        return Terms(total=(loss * weight).sum(), metrics={name: (x, count) for name, x in sums.items()})


def _divergence(array: ArrayFunctions, log_ratio: Array) -> Array:
    """Estimate of each token's divergence, never negative: ``r - 1 - log r`` for the ratio r of another model to this.

    Both terms use the bounded ratio: the derivative of one term alone could point away from the other model.
    """
    bounded = array.clip(log_ratio, -LARGEST_LOG_RATIO, LARGEST_LOG_RATIO)
    return array.exp(bounded) - 1 - bounded


def temperature_of(objective: Objective) -> float:
    """Temperature that logits are divided by; 1 for objectives other than policy gradients."""
    return objective.temperature if isinstance(objective, PolicyGradient) else 1.0
