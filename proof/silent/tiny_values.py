"""Two values are called equal where both are tiny, with any ratio or sign.

Reported: Math-Verify#14.
"""

from proof.silent._harness import Found, right_if
from workings.scoring.items import Item
from workings.scoring.scorers import get_scorer

PAIRS = ((r"\frac{1}{2^{99}}", r"\frac{1}{2^{98}}"), (r"\frac{1}{2^{99}}", r"-\frac{1}{2^{99}}"),
         ("e^{-50}", "e^{-51}"), ("(0.1)^{20}", "(0.1)^{21}"))


def check() -> Found:
    """The scorer `math` tells four pairs apart, and each value equals itself."""
    score = get_scorer("math").score
    told = [(score(left, Item(id="x", prompt="?", expected_answer=left)),
             score(right, Item(id="x", prompt="?", expected_answer=left))) for left, right in PAIRS]
    return right_if([*map(list, told)] == [[1, 0]] * 4, f"itself and another value: {told}")
