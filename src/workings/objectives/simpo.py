"""SimPO: preferences without a reference. A completion's reward is its mean log probability a token.

Source: SimPO, arXiv 2405.14734, equation 6.

Shape suffixes: B rows, S positions of a row, P pairs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from workings.errors import RequestError
from workings.objectives.base import PAIR_METRICS, Array, ArrayFunctions, Terms, pair_terms


@dataclass(frozen=True, kw_only=True)
class SimPo:
    """Negative log likelihood that the chosen row of each pair is preferred by at least ``gamma``.

    Rows 2i and 2i + 1 of a batch are a pair, the chosen one first; a pair of padding counts nothing.
    """

    name: ClassVar[str] = "simpo"
    rows_may_move: ClassVar[bool] = False
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
        is_pair_P, means_P2 = pair_means(log_probs_BS, mask_BS)
        rewards_P2 = self.beta * means_P2
        return pair_terms(-array.log_sigmoid(rewards_P2[:, 0] - rewards_P2[:, 1] - self.gamma), is_pair_P, rewards_P2,
                          means_P2)


def pair_means(log_probs_BS: Array, mask_BS: Array) -> tuple[Array, Array]:
    """Whether each pair is one (``[P]``, 1.0 or 0.0), and the mean log probability a token of its rows, ``[P, 2]``."""
    tokens_P2, sums_P2 = ((x * mask_BS).sum(-1).reshape(-1, 2) for x in (mask_BS, log_probs_BS))
    # Padding counts as one token: 0 / 0 would be NaN, also after multiplication by 0.
    return (tokens_P2 > 0).all(-1) * 1.0, sums_P2 / (tokens_P2 + (tokens_P2 == 0))


OBJECTIVE = SimPo
