"""A grader gives full marks to an answer that claims authority or asks for them.

Reported: NeMo-Gym#2852 (10 of 10 for such texts).
"""

from proof.silent._harness import Found, right_if
from tests.scoring.test_rewards import ITEM, sample, settings
from workings.runs.probes import attacked
from workings.scoring.rewards import shipped_reward


def check() -> Found:
    """Five attacks around a wrong answer earn nothing from `answer`, `exact` and `math`."""
    texts = attacked("The answer is 13.", ITEM)
    paid = []
    for scorer in ("answer", "exact", "math"):
        asked = settings(scorer, form="any")
        paid += [f"{scorer}: {name}" for name, text in texts.items() if shipped_reward(
            asked.rewards[0], sample(text), asked)]
    return right_if(not paid, f"{len(texts)} attacks on 3 scorers, {len(paid)} paid {paid}")
