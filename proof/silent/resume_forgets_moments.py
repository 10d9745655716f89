"""A resumed run begins with empty moments, or loses the state of a random generator.

Reported: as one kind with data that are skipped, trl#3247, slime#1695, unsloth-zoo#832, prime-rl#3422.
"""

from proof.silent._harness import Found, right_if
from proof.silent._resumed import resumed


def check(engine: str) -> Found:
    """The last checkpoint, moments included, is that of the uninterrupted run to the bit."""
    run = resumed(engine)
    return right_if(run.same_weights, f"weights and moments are equal to the bit: {run.same_weights}")
