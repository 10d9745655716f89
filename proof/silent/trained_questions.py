"""Questions of the evaluation were trained on, and the score is reported as a measure.

Reported: arXiv 2311.04850 (rephrased test items in training data).
"""

from proof.silent._harness import Found, refused
from tests.rollouts.making import PROMPTS
from workings.rollouts.prompts import refuse_evaluation_items
from workings.scoring.items import Item


def check() -> Found:
    """A prompt that is an evaluation item but for case and white space is refused."""
    return refused(lambda: refuse_evaluation_items(PROMPTS, [Item(id="x", prompt="  what IS 2? ",
                                                                  expected_answer="2")]), "evaluation items", "p2")
