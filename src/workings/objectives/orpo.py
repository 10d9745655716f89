"""ORPO: the chosen completion is imitated, and its odds are raised above those of the rejected one; no reference.

Source: ORPO, arXiv 2403.07691, equations 3 to 7. The odds of a completion are p / (1 - p), where p is the geometric
mean of its tokens' probabilities.

Shape suffixes: B rows, S positions of a row, P pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from workings.errors import RequestError
from workings.objectives.base import PAIR_METRICS, Array, ArrayFunctions, Terms, pair_terms
from workings.objectives.simpo import pair_means

IMITATION = "imitation_weight"
"""Signal: pairs of the update divided by tokens of all its chosen completions, at the tokens of chosen rows. With it
the mean over pairs that an engine takes is, of the imitation, the mean over tokens."""
MOST = -1e-6
"""Upper limit of a mean log probability: a completion that is certain has infinite odds."""


@dataclass(frozen=True, kw_only=True)
class Orpo:
    """Cross entropy of the chosen rows, plus ``beta`` times the negative log likelihood of the preference.

    Rows 2i and 2i + 1 of a batch are a pair, the chosen one first; a pair of padding counts nothing.
    """

    name: ClassVar[str] = "orpo"
    rows_may_move: ClassVar[bool] = False
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
        is_pair_P, means_P2 = pair_means(log_probs_BS, mask_BS)
        # log(p / (1 - p)), the same as the logarithm of p minus that of its complement.
        bounded_P2 = array.minimum(means_P2, means_P2 * 0 + MOST)
        odds_P2 = bounded_P2 - array.log(-array.expm1(bounded_P2))
        difference_P = odds_P2[:, 0] - odds_P2[:, 1]
        imitation_P2 = -(log_probs_BS * mask_BS * signals[IMITATION]).sum(-1).reshape(-1, 2)
        imitation_P = imitation_P2[:, 0] + imitation_P2[:, 1]
        return pair_terms(imitation_P - self.beta * array.log_sigmoid(difference_P), is_pair_P, self.beta * means_P2,
                          means_P2, log_odds=difference_P, imitation_loss=imitation_P)


OBJECTIVE = Orpo
