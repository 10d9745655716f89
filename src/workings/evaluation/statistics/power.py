"""How small a difference a comparison of this size could have seen."""

import math
from statistics import NormalDist

from workings.evaluation.statistics import CONFIDENCE
from workings.evaluation.statistics.interval import z_value

POWER = 0.8
ASSUMED_DISCORDANT = 0.2
"""Share of items on which two models disagree, assumed where only one scorecard is there (facts of earlier runs)."""


def minimum_detectable_effect(standard_error: float, confidence: float = CONFIDENCE, power: float = POWER) -> float:
    """Smallest true difference that a two-sided test finds with this power: ``(z_alpha + z_power) * error``."""
    return (z_value(confidence) + NormalDist().inv_cdf(power)) * standard_error


def paired_error(n: int, discordant_share: float) -> float:
    """Standard error of a paired difference of zero over ``n`` items with this share of discordant items."""
    return math.sqrt(discordant_share / n)


def items_needed(half_width: float, error: float, n: int) -> int:
    """Items at which an interval with standard error ``error`` at ``n`` items would be ``half_width`` to a side."""
    return math.ceil(n * (z_value() * error / half_width) ** 2)
