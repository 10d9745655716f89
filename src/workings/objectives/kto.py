"""KTO: correct completions become more likely, wrong ones less likely. No pairs of completions are needed.

The log ratio of a completion, of its probability now to that under the reference, is compared with the drift z of the
model: the mean log ratio of completions after prompts of other examples, at least 0. It is a constant of the gradient.

Source: KTO, https://arxiv.org/abs/2402.01306, equations 6 to 8.

Shape suffixes: B rows, S positions of a row, E examples.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from workings.errors import RequestError
from workings.objectives.base import Array, ArrayFunctions, OfCompletions, Terms, pair_terms, row_pairs
from workings.objectives.policy_gradient import REFERENCE

VERDICT = "verdict"
"""Signal: 1 for a correct completion and -1 for a wrong one, at one supervised position of its row."""


@dataclass(frozen=True, kw_only=True)
class Kto(OfCompletions):
    """The loss of a completion is 1 - sigmoid(``beta`` x (log ratio - z)), with the opposite sign for a wrong one.

    Row 2i of a batch is a completion with its verdict. Row 2i + 1 has the same prompt and the completion of another
    example, which only z reads. z is a mean over the rows of a micro batch, or over a process's part of them.
    """

    name: ClassVar[str] = "kto"
    signals: ClassVar[tuple[str, ...]] = (REFERENCE, VERDICT)
    metrics: ClassVar[tuple[str, ...]] = ("margin", "accuracy", "implied_reward", "log_prob", "drift")
    """Means over examples. ``implied_reward``: ``beta`` x log ratio; ``margin``: the same with the sign of the verdict;
    ``accuracy``: share of log ratios on the verdict's side of z; ``log_prob``: of whole completions, in nats;
    ``drift``: z, in nats."""

    beta: float = 0.1
    """Factor of implied rewards."""
    right_weight: float = 1.0
    """Weight of the loss of correct completions."""
    wrong_weight: float = 1.0
    """Weight of the loss of wrong completions."""

    def __post_init__(self) -> None:
        if not (self.beta > 0 and self.right_weight > 0 and self.wrong_weight > 0):
            raise RequestError(f"beta {self.beta:g}, right_weight {self.right_weight:g} or wrong_weight "
                               f"{self.wrong_weight:g} is out of range", "numbers above 0")

    def terms(self, array: ArrayFunctions, log_probs_BS: Array, mask_BS: Array, signals: Mapping[str, Array]) -> Terms:
        """Value of the objective for some rows; see `Objective.terms`."""
        is_example_E, _, now_E2, reference_E2, verdict_E2 = row_pairs(mask_BS, log_probs_BS, signals[REFERENCE],
                                                                      signals[VERDICT])
        log_ratio_E2, verdict_E = now_E2 - reference_E2, verdict_E2[:, 0]
        count = is_example_E.sum()
        mean_log_ratio = (log_ratio_E2[:, 1] * is_example_E).sum() / (count + (count == 0))
        drift = array.stop_gradient(-array.minimum(-mean_log_ratio, mean_log_ratio * 0))
        signed_E = verdict_E * self.beta * (log_ratio_E2[:, 0] - drift)
        weight_E = (self.right_weight * (1 + verdict_E) + self.wrong_weight * (1 - verdict_E)) / 2
        # 1 - sigmoid(x) is sigmoid(-x), which keeps its digits where it is small.
        loss_E = weight_E * array.exp(array.log_sigmoid(-signed_E))
        reward_E = self.beta * log_ratio_E2[:, 0]
        return pair_terms(loss_E, is_example_E, {
            "margin": verdict_E * reward_E, "accuracy": signed_E > 0, "implied_reward": reward_E,
            "log_prob": now_E2[:, 0], "drift": drift})
