"""Where groups are left out, advantages are normalized over the whole batch in place of each prompt's group.

Reported: slime#2230, verl#6452.
"""

from proof.silent._harness import Found, right_if
from workings.rollouts.rollout import select_groups
from workings.ways.rewards import Dapo


def check() -> Found:
    """An easy and a hard prompt: the advantages of each group sum to 0, and a rejected group moves no other."""
    way = Dapo(name="dapo")
    hard, easy = way.advantages([0.0, 0.0, 1.0, 0.0]), way.advantages([10.0, 11.0, 10.0, 10.0])
    kept = select_groups([True, False, True], 2, dynamic=True)
    return right_if(abs(sum(hard)) < 1e-12 and abs(hard[2] - easy[1]) < 1e-9 and kept == [True, False, True],
                    f"the best of either group has {hard[2]:.4f} and {easy[1]:.4f}; a group sums to {sum(hard):.0e}")
