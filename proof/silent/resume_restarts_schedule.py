"""A resumed run begins its learning rate anew.

Reported: as one kind with data that are skipped, trl#3247, slime#1695, unsloth-zoo#832, prime-rl#3422.
"""

from proof.silent._harness import Found, right_if
from proof.silent._resumed import resumed


def check(engine: str) -> Found:
    """Learning rates after the stop go on along the cosine."""
    run = resumed(engine)
    rates = [[line["learning_rate"] for line in lines] for lines in (run.straight, run.resumed)]
    return right_if(rates[0] == rates[1] and rates[1][3] < rates[1][2],
                    f"rates {', '.join(f'{rate:.2e}' for rate in rates[1])} in both")
