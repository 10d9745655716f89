"""A reward of NaN or None poisons its whole group, and the loss with it.

Reported: trl PR 5775.
"""

from proof.silent._harness import Found, refused, temporary
from tests.scoring.test_rewards import sample, settings
from workings.scoring.rewards import RewardProcess

BROKEN = "def broken(prompts, completions, **columns):\n    return [1.0, float('nan')]\n"


def check() -> Found:
    """The run ends with the name of the reward and the number of the completion."""
    with temporary() as folder:
        (folder / "own.py").write_text(BROKEN)
        with RewardProcess(settings("own.py:broken", base=folder)) as process:
            return refused(lambda: process.score([sample("a"), sample("b")]), "own.py:broken", "nan")
