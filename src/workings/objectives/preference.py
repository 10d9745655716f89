"""Preferences: the better of two completions of a prompt becomes more likely than the other.

`Preference` (DPO) compares probabilities with those under a reference, the model that training began with: the implied
reward of a completion is ``beta`` times the log of the ratio of its probability now to that under the reference. SimPO
has no reference: a reward is the mean log probability a token. ORPO imitates the chosen completion, and raises its odds
above those of the rejected one: p / (1 - p), where p is the geometric mean of its tokens' probabilities.

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
"""Means over pairs: implied rewards, of the chosen row minus the rejected one (``margin``) and of each; the share of
pairs with a margin above 0 (``accuracy``); log probabilities in nats."""


def pair_values(rewards_P2: Array, log_probs_P2: Array) -> dict[str, Array]:
    """`PAIR_METRICS` of P pairs; ``rewards_P2``: implied rewards of chosen and rejected row."""
    margin_P = rewards_P2[:, 0] - rewards_P2[:, 1]
    return dict(zip(PAIR_METRICS, (margin_P, margin_P > 0, rewards_P2[:, 0], rewards_P2[:, 1], log_probs_P2[:, 0],
                                   log_probs_P2[:, 1]), strict=True))


@dataclass(frozen=True, kw_only=True)
class Preference(OfCompletions):
    """Negative log likelihood that the chosen row of each pair is preferred, or the squared distance of IPO.

    Row 2i of a batch is the chosen row of a pair, row 2i + 1 the rejected one. Of the signal only the sum over a row's
    supervised positions counts. A pair that has a row without a supervised position counts nothing: it is padding.
    """

    name: ClassVar[str] = "preference"
    signals: ClassVar[tuple[str, ...]] = (REFERENCE,)
    metrics: ClassVar[tuple[str, ...]] = PAIR_METRICS
    """Log probabilities are those of whole completions."""

    beta: float = 0.1
    """Factor of implied rewards. With IPO the target margin is ``1 / (2 beta)``: the smaller, the farther apart the
    completions are to be."""
    loss: Literal["sigmoid", "ipo"] = "sigmoid"
    """`sigmoid`: Bradley and Terry's model of preferences (DPO). `ipo`: squared distance of the margin from
    ``1 / (2 beta)``, in nats per token, as in the code of IPO's authors."""
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
    """Negative log likelihood that the chosen row of each pair is preferred by at least ``gamma``.

    Rows 2i and 2i + 1 of a batch are a pair, the chosen one first; a pair of padding counts nothing.
    """

    name: ClassVar[str] = "simpo"
    signals: ClassVar[tuple[str, ...]] = ()
    metrics: ClassVar[tuple[str, ...]] = PAIR_METRICS
    """Log probabilities are means over a completion's tokens."""

    beta: float = 2.0
    """Factor of rewards."""
    gamma: float = 1.0
    """Margin of rewards at which a pair counts as told apart."""

    def __post_init__(self) -> None:
        if not (self.beta > 0 and self.gamma >= 0):
            raise RequestError(f"beta {self.beta:g} or gamma {self.gamma:g} is out of range",
                               "beta above 0, gamma of at least 0")

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        del signals
        is_pair_P, tokens_P2, sums_P2 = row_pairs(mask_BS, log_probs_BS)
        means_P2 = sums_P2 / tokens_P2
        values_P = pair_values(self.beta * means_P2, means_P2)
        return pair_terms(-array.log_sigmoid(values_P["margin"] - self.gamma), is_pair_P, values_P)


IMITATION = "imitation_weight"
"""Signal: pairs of the update divided by tokens of all its chosen completions, at the tokens of chosen rows. With it
the mean over pairs that an engine takes is, of the imitation, the mean over tokens."""
MOST = -1e-6
"""Upper limit of a mean log probability: a completion that is certain has infinite odds."""


@dataclass(frozen=True, kw_only=True)
class Orpo(OfCompletions):
    """Cross entropy of the chosen rows, plus ``beta`` times the negative log likelihood of the preference.

    Rows 2i and 2i + 1 of a batch are a pair, the chosen one first; a pair of padding counts nothing.
    """

    name: ClassVar[str] = "orpo"
    signals: ClassVar[tuple[str, ...]] = (IMITATION,)
    metrics: ClassVar[tuple[str, ...]] = (*PAIR_METRICS, "log_odds", "imitation_loss")
    """Log probabilities are means over a completion's tokens. ``log_odds``: of the chosen rows minus the rejected ones.
    ``imitation_loss``: nats per token of the chosen rows."""

    beta: float = 0.1
    """Weight of the preference next to imitation; the paper's lambda."""

    def __post_init__(self) -> None:
        if not self.beta > 0:
            raise RequestError(f"beta must be above 0, not {self.beta:g}", "a weight, e.g. 0.1")

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        is_pair_P, tokens_P2, sums_P2 = row_pairs(mask_BS, log_probs_BS)
        means_P2 = sums_P2 / tokens_P2
        bounded_P2 = array.minimum(means_P2, means_P2 * 0 + MOST)
        odds_P2 = bounded_P2 - array.log(-array.expm1(bounded_P2))
        difference_P = odds_P2[:, 0] - odds_P2[:, 1]
        imitation_P2 = -(log_probs_BS * mask_BS * signals[IMITATION]).sum(-1).reshape(-1, 2)
        imitation_P = imitation_P2[:, 0] + imitation_P2[:, 1]
        return pair_terms(imitation_P - self.beta * array.log_sigmoid(difference_P), is_pair_P, pair_values(
            self.beta * means_P2, means_P2) | {"log_odds": difference_P, "imitation_loss": imitation_P})
