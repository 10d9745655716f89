"""Preferences: the better of two completions of a prompt becomes more likely than the other.

`Preference` (DPO, IPO) has a reference, the model before training: the implied reward of a completion is ``beta`` times
the log ratio of its probability now to that under the reference. `SimPo` has no reference: the reward is ``beta`` times
the mean log probability per token. `Orpo` imitates the chosen completion, and raises its odds p / (1 - p) above those
of the rejected one, where p is the geometric mean of the probabilities of the tokens.

In a batch, rows 2i and 2i + 1 are a pair, the chosen row first. A pair is padding if one of its rows has no supervised
position.

Sources: DPO, arXiv 2305.18290; label smoothing (conservative DPO), https://ericmitchell.ai/cdpo.pdf; IPO, 2310.12036;
SimPO, 2405.14734, equation 6; ORPO, 2403.07691, equations 3 to 7.

Shape suffixes: B rows, S positions of a row, P pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from workings.errors import RequestError
from workings.objectives.base import Array, ArrayFunctions, OfCompletions, Terms, pair_terms, row_pairs
from workings.objectives.policy_gradient import REFERENCE

PAIR_METRICS = ("margin", "accuracy", "chosen_reward", "rejected_reward", "chosen_log_prob", "rejected_log_prob")
"""Means over pairs. ``margin``: implied reward of the chosen row minus that of the rejected one; ``accuracy``: share of
pairs with a margin above 0; log probabilities are in nats."""


def pair_values(rewards_P2: Array, log_probs_P2: Array) -> dict[str, Array]:
    """`PAIR_METRICS` of P pairs, from implied rewards and log probabilities of chosen and rejected rows."""
    margin_P = rewards_P2[:, 0] - rewards_P2[:, 1]
    return {"margin": margin_P, "accuracy": margin_P > 0,
            "chosen_reward": rewards_P2[:, 0], "rejected_reward": rewards_P2[:, 1],
            "chosen_log_prob": log_probs_P2[:, 0], "rejected_log_prob": log_probs_P2[:, 1]}


@dataclass(frozen=True, kw_only=True)
class Preference(OfCompletions):
    """Negative log likelihood that the chosen row of each pair is preferred, or the squared distance of IPO."""

    name: ClassVar[str] = "preference"
    signals: ClassVar[tuple[str, ...]] = (REFERENCE,)
    metrics: ClassVar[tuple[str, ...]] = PAIR_METRICS
    """Log probabilities are those of whole completions."""

    beta: float = 0.1
    """Factor of implied rewards."""
    loss: Literal["sigmoid", "ipo"] = "sigmoid"
    """`sigmoid`: Bradley and Terry's model of preferences (DPO). `ipo`: squared distance between the difference of log
    ratios and ``1 / (2 beta)``, in nats per token, as in the code of IPO's authors."""
    label_smoothing: float = 0.0
    """Assumed probability of a wrong label (`sigmoid`)."""
    length_normalized: bool = False
    """Whether log probabilities are means over a completion's tokens instead of sums (`sigmoid`; always with `ipo`)."""

    def __post_init__(self) -> None:
        if not (self.beta > 0 and 0 <= self.label_smoothing < 0.5):
            raise RequestError(f"beta {self.beta:g} or label_smoothing {self.label_smoothing:g} is out of range",
                               "beta above 0, label_smoothing of at least 0 and below 0.5")
        if self.loss == "ipo" and (self.label_smoothing or self.length_normalized):
            raise RequestError("loss ipo takes neither label_smoothing nor length_normalized",
                               "loss ipo alone: it is always normalized by length",
                               "algorithm.label_smoothing=0 algorithm.length_normalized=false")

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        is_pair_P, tokens_P2, now_P2, reference_P2 = row_pairs(mask_BS, log_probs_BS, signals[REFERENCE])
        log_ratio_P2 = now_P2 - reference_P2
        return pair_terms(self._losses(array, log_ratio_P2, tokens_P2), is_pair_P,
                          pair_values(self.beta * log_ratio_P2, now_P2))

    def _losses(self, array: ArrayFunctions, log_ratio_P2: Array, tokens_P2: Array) -> Array:
        """``[P]`` losses, from the rows' log probabilities minus those under the reference, in nats."""
        if self.loss == "ipo" or self.length_normalized:
            log_ratio_P2 = log_ratio_P2 / tokens_P2
        difference_P = log_ratio_P2[:, 0] - log_ratio_P2[:, 1]
        if self.loss == "ipo":
            return (difference_P - 1 / (2 * self.beta)) ** 2
        losses_P = -(1 - self.label_smoothing) * array.log_sigmoid(self.beta * difference_P)
        if self.label_smoothing:
            losses_P = losses_P - self.label_smoothing * array.log_sigmoid(-self.beta * difference_P)
        return losses_P


@dataclass(frozen=True, kw_only=True)
class SimPo(OfCompletions):
    """Negative log likelihood that the chosen row of each pair is preferred by a margin of at least ``gamma``."""

    name: ClassVar[str] = "simpo"
    signals: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = PAIR_METRICS
    """Log probabilities are means over a completion's tokens."""

    beta: float = 2.0
    """Factor of rewards."""
    gamma: float = 1.0
    """Margin of rewards that is subtracted before the sigmoid."""

    def __post_init__(self) -> None:
        if not (self.beta > 0 and self.gamma >= 0):
            raise RequestError(f"beta {self.beta:g} or gamma {self.gamma:g} is out of range",
                               "beta above 0, gamma of at least 0")

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        is_pair_P, tokens_P2, sums_P2 = row_pairs(mask_BS, log_probs_BS)
        means_P2 = sums_P2 / tokens_P2
        values_P = pair_values(self.beta * means_P2, means_P2)
        return pair_terms(-array.log_sigmoid(values_P["margin"] - self.gamma), is_pair_P, values_P)


IMITATION = "imitation_weight"
"""Signal at the tokens of chosen rows: number of pairs of the update, divided by the tokens of all its chosen rows. It
turns the engine's mean over pairs into the mean over tokens that imitation needs."""
MAX_MEAN_LOG_PROB = -1e-6
"""Upper limit of a mean log probability: at 0 the odds are infinite."""


@dataclass(frozen=True, kw_only=True)
class Orpo(OfCompletions):
    """Cross entropy of the chosen rows, plus ``beta`` times the negative log likelihood of the preference."""

    name: ClassVar[str] = "orpo"
    signals: ClassVar[tuple[str, ...]] = (IMITATION,)
    metrics: ClassVar[tuple[str, ...]] = (*PAIR_METRICS, "log_odds", "imitation_loss")
    """Log probabilities are means over a completion's tokens. ``log_odds``: of chosen rows minus those of rejected
    ones. ``imitation_loss``: nats per token of the chosen rows."""

    beta: float = 0.1
    """Weight of the preference; the weight of imitation is 1. The paper's lambda."""

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise RequestError(f"beta must be above 0, not {self.beta:g}", "a weight, e.g. 0.1")

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        is_pair_P, tokens_P2, sums_P2 = row_pairs(mask_BS, log_probs_BS)
        means_P2 = sums_P2 / tokens_P2
        bounded_P2 = array.minimum(means_P2, means_P2 * 0 + MAX_MEAN_LOG_PROB)
        odds_P2 = bounded_P2 - array.log(-array.expm1(bounded_P2))
        difference_P = odds_P2[:, 0] - odds_P2[:, 1]
        imitation_P2 = -(log_probs_BS * mask_BS * signals[IMITATION]).sum(-1).reshape(-1, 2)
        imitation_P = imitation_P2[:, 0] + imitation_P2[:, 1]
        return pair_terms(imitation_P - self.beta * array.log_sigmoid(difference_P), is_pair_P, pair_values(
            self.beta * means_P2, means_P2) | {"log_odds": difference_P, "imitation_loss": imitation_P})
