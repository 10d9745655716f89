"""A resumed run skips rows, or sees them in another order.

Reported: NeMo-RL#3599 (675 of 736 prompts skipped), transformers#40691.
"""

from proof.silent._harness import Found, right_if
from proof.silent._resumed import resumed


def check(engine: str) -> Found:
    """The batches after the stop are those of an uninterrupted run, by their digests and losses."""
    run = resumed(engine)
    digests = [[line["batch_digest"] for line in lines] for lines in (run.straight, run.resumed)]
    losses = [[line["loss"] for line in lines] for lines in (run.straight, run.resumed)]
    return right_if(digests[0] == digests[1] and len(set(digests[0])) == 6 and losses[0] == losses[1],
                    f"stopped after {run.stopped_at} of 6 steps: digests of batches and losses are equal to the bit")
