"""Direct preference optimization: the better of two completions of a prompt becomes more likely than the other.

Probabilities are compared with those under a reference, the model that training began with: the implied reward of a
completion is ``beta`` times the log of the ratio of its probability now to that under the reference.

Sources: DPO, arXiv 2305.18290; label smoothing (conservative DPO), https://ericmitchell.ai/cdpo.pdf; IPO, 2310.12036.

Shape suffixes: B rows, S positions of a row, P pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from workings.errors import RequestError
from workings.objectives.base import PAIR_METRICS, Array, ArrayFunctions, Terms, pair_terms
from workings.objectives.policy_gradient import REFERENCE


@dataclass(frozen=True, kw_only=True)
class Preference:
    """Negative log likelihood that the chosen row of each pair is preferred, or the squared distance of IPO.

    Row 2i of a batch is the chosen row of a pair, row 2i + 1 the rejected one. Of the signal only the sum over a row's
    supervised positions counts. A pair that has a row without a supervised position counts nothing: it is padding.
    """

    name: ClassVar[str] = "preference"
    rows_may_move: ClassVar[bool] = False
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
        # [B, S] -> [B] -> [P, 2]: the rows of a pair are neighbours.
        tokens_P2, now_P2, reference_P2 = ((x * mask_BS).sum(-1).reshape(-1, 2) for x in (
            mask_BS, log_probs_BS, signals[REFERENCE]))
        is_pair_P = (tokens_P2 > 0).all(-1) * 1.0
        log_ratio_P2 = now_P2 - reference_P2
        rewards_P2 = self.beta * log_ratio_P2
        # Padding counts as one token: 0 / 0 would be NaN, also after multiplication by 0.
        loss_P = self._losses(array, log_ratio_P2, tokens_P2 + (tokens_P2 == 0))
        return pair_terms(loss_P, is_pair_P, rewards_P2, now_P2)

    def _losses(self, array: ArrayFunctions, log_ratio_P2: Array, tokens_P2: Array) -> Array:
        """``[P]`` losses, from the rows' log probabilities minus those under the reference, in nats."""
        if self.loss == "ipo" or self.length_normalized:
            log_ratio_P2 = log_ratio_P2 / tokens_P2
        difference_P = log_ratio_P2[:, 0] - log_ratio_P2[:, 1]
        if self.loss == "ipo":
            # IPO: the margin has a target, so a pair that is told apart already pushes back when it is overdone.
            return (difference_P - 1 / (2 * self.beta)) ** 2
        # DPO: -log sigmoid(beta (log ratio of the chosen row - log ratio of the rejected one)).
        losses_P = -(1 - self.label_smoothing) * array.log_sigmoid(self.beta * difference_P)
        # Left out without smoothing, where it would only cost.
        return losses_P - self.label_smoothing * array.log_sigmoid(-self.beta * difference_P) if self.label_smoothing \
            else losses_P


OBJECTIVE = Preference
