"""Equivalence within a margin: are two models shown to differ by less than was said to matter (TOST)?

Two one-sided tests (Schuirmann, 1987), each at 5 %: that B is not worse than A by the margin, and that it is not better
by it. Both hold exactly where the 90 % interval of the same method is within the margin. "Not shown to differ" is
something else: few items never show anything.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from workings.evaluation.statistics.differences import score_statistic, tango, welch_mean
from workings.evaluation.statistics.intervals import CONFIDENCE, Interval, MeanResult, clustered_t_mean, t_mean

TOST_CONFIDENCE = 2 * CONFIDENCE - 1
"""Confidence of the interval that is within the margin exactly if both one-sided tests reject: 90 %."""


@dataclass(frozen=True, slots=True)
class Equivalence:
    """Result of two one-sided tests."""

    margin: float
    """Largest difference that does not matter, as a share."""
    interval: Interval
    """The 90 % interval of the difference."""
    p_value: float
    """The larger of the two one-sided p values."""

    @property
    def shown(self) -> bool:
        """Whether a difference of the margin or more is ruled out."""
        return self.p_value < 1 - CONFIDENCE


def score_equivalence(newly_right: int, newly_wrong: int, n: int, margin: float) -> Equivalence:
    """Equivalence of right or wrong over the same ``n`` independent items, by Tango's score statistic (1998)."""
    # Each null hypothesis is a difference of exactly the margin, on either side.
    above = score_statistic(newly_right, newly_wrong, n, -margin)
    below = -score_statistic(newly_right, newly_wrong, n, margin)
    # Both tests must reject, so the weaker one decides; no adjustment for two tests is needed.
    p_value = max(math.erfc(z / math.sqrt(2)) / 2 for z in (above, below))
    return Equivalence(margin, tango(newly_right, newly_wrong, n, TOST_CONFIDENCE), p_value)


def t_equivalence(differences: Sequence[float], margin: float, clusters: Sequence[str] = ()) -> Equivalence:
    """Equivalence of differences that vary, by Student's t, or by the clustered t with ``clusters``.

    Raises:
        RequestError: fewer than 2 values, or fewer than 8 clusters.
    """
    def mean(shift: float) -> MeanResult:
        # "The difference is above minus the margin" is the same as "the difference plus the margin is above zero".
        shifted = [value + shift for value in differences]
        return (clustered_t_mean(shifted, clusters, TOST_CONFIDENCE) if clusters else t_mean(shifted, TOST_CONFIDENCE))
    return _of_means(mean, margin)


def welch_equivalence(a: Sequence[float], b: Sequence[float], margin: float) -> Equivalence:
    """Equivalence of the means of two groups of runs, by Welch's t; at least two values a side."""
    return _of_means(lambda shift: welch_mean(a, [value + shift for value in b], TOST_CONFIDENCE), margin)


def _of_means(mean: Callable[[float], MeanResult], margin: float) -> Equivalence:
    # A shift moves the mean and leaves its error: the test against the margin is that of a shifted mean against zero.
    above, below = mean(margin), mean(-margin)
    p_value = max(_upper(above.mean, above.p_value), _upper(-below.mean, below.p_value))
    return Equivalence(margin, mean(0.0).interval, p_value)


def _upper(mean: float, two_sided: float) -> float:
    """One-sided p value of "the mean is not above zero"."""
    # The two tails are equal, so one of them is half of both, on the side where the mean is.
    return two_sided / 2 if mean > 0 else 1 - two_sided / 2
