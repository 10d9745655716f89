"""A number that is grouped otherwise than by thousands is cut, and a fragment of it makes a wrong answer right.

Reported: lm-evaluation-harness#3214, opencompass PR 2426, helm#4337.
"""

from dataclasses import replace

from proof.silent._harness import Found, right_if
from tests.scoring.test_rewards import ITEM, sample, settings
from workings.scoring.rewards import shipped_reward

CASES = {"The answer is Rs 1,50,000.": ("150000", "1"), "The town has 10,00,000 people.": ("1000000", "0"),
         "The total is 150'000.": ("150000", "150"), "The answer is 1,234.50": ("1234.5", "1")}


def check() -> Found:
    """Of four texts the whole number is right and its fragment wrong."""
    asked = settings("answer", form="any")

    def reward(text: str, expected: str) -> float:
        return shipped_reward(asked.rewards[0], sample(text, item=replace(ITEM, expected_answer=expected)), asked)

    found = {text: (reward(text, whole), reward(text, part)) for text, (whole, part) in CASES.items()}
    return right_if({*found.values()} == {(1, 0)}, f"whole number and fragment: {[*found.values()]}")
