"""What every interval method returns."""

import math
from dataclasses import dataclass
from statistics import NormalDist

from workings.evaluation.statistics import CONFIDENCE


@dataclass(frozen=True, slots=True)
class Interval:
    """A 95 % interval and the method it came from."""

    low: float
    high: float
    method: str


def z_value(confidence: float = CONFIDENCE) -> float:
    """Two-sided normal quantile: 1.959963984540054 at 95 %."""
    return NormalDist().inv_cdf((1 + confidence) / 2)


def two_sided_p(z: float) -> float:
    """Two-sided p value of a standard normal statistic, exact far out in the tail as well."""
    return math.erfc(abs(z) / math.sqrt(2))
