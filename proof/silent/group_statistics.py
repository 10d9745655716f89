"""Mean and deviation of a group in float32 cancel: an advantage of 0.005 in place of 0.62.

Reported: verl#6348.
"""

from proof.silent._harness import Found, right_if
from workings.ways.rewards import Grpo


def check() -> Found:
    """Rewards of a million and a million and one are as far apart as 0 and 1; equal rewards give exact zeros."""
    way = Grpo(name="grpo")
    far, near = way.advantages([1e6, 1e6 + 1]), way.advantages([0.0, 1.0])
    equal = way.advantages([0.1] * 3)
    return right_if(far == near and equal == [0.0] * 3, f"{far[1]:.6f} for a million, {near[1]:.6f} for 0 and 1; equal "
                    f"rewards {equal}")
