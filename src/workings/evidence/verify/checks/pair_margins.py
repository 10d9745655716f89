"""Accuracy, margin and loss of one step of preference pairs: which of them can stand beside each other.

The log has means over pairs. A pair counts as right where its margin is above 0, and its loss falls with its margin and
is convex in it, so that mean margin and accuracy together bound the mean loss.
"""

import math
from collections.abc import Mapping

from workings.ways.dpo import Dpo


def margin_problems(algorithm: Dpo, numbers: Mapping[str, float], pairs: int, slack: float) -> list[str]:
    """What an accuracy says against the mean margin, and a loss against both.

    Args:
        algorithm: of the run.
        numbers: ``accuracy``, ``margin`` and ``loss`` of the step.
        pairs: of the step.
        slack: how far rounding may move a margin.
    """
    right = round(numbers["accuracy"] * pairs)
    margin, loss = numbers["margin"], numbers["loss"]
    if right == pairs and margin < -slack:
        return [f"a margin of {margin:g}, with every pair right"]
    if right == 0 and margin > slack:
        return [f"a margin of {margin:g}, with no pair right"]
    # The bounds below follow from the sigmoid loss of plain margins, and hold for no other.
    if algorithm.loss != "sigmoid" or algorithm.length_normalized or algorithm.label_smoothing:
        return []
    least, most = loss_bounds(margin, right, pairs)
    if loss < least - slack:
        return [f"loss {loss:g}, with this margin and accuracy it is at least {least:g}"]
    if loss > most + slack:
        return [f"loss {loss:g}, with this margin and accuracy it is at most {most:g}"]
    return []


def loss_bounds(margin: float, right: int, pairs: int) -> tuple[float, float]:
    """Least and greatest mean loss of pairs with this mean margin, of which so many have a margin above 0.

    The least: pairs on the side of the mean share it alike, the others stand at 0. The greatest exists where all pairs
    are on one side: one of them has the whole sum, the others stand at 0.
    """
    total = margin * pairs
    same_side = right if total > 0 else pairs - right
    at_zero = pair_loss(0.0)
    # Rounding may leave nobody on the side of a mean that is all but 0.
    least = at_zero if not same_side else (
        (pairs - same_side) * at_zero + same_side * pair_loss(total / same_side)) / pairs
    most = ((pairs - 1) * at_zero + pair_loss(total)) / pairs if right in (0, pairs) else math.inf
    return least, most


def pair_loss(margin: float) -> float:
    """Minus the logarithm of a sigmoid of the margin, written so that no exponential overflows."""
    return max(0.0, -margin) + math.log1p(math.exp(-abs(margin)))
