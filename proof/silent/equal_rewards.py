"""All rewards of a group are equal, every advantage is 0, and the run continues without a word.

Reported: trl#3452, trl#3857, ms-swift#5571.
"""

from proof.silent._harness import Found, refused
from tests.rollouts.making import PROMPTS, rollout, sample
from workings.rollouts.rollout import Group, rollout_metrics
from workings.ways.parts.rollout_experience import StallDetector
from workings.ways.rewards import Grpo


def check() -> Found:
    """After `patience` such rollouts the run is ended, with the reward that all had."""
    detector = StallDetector(Grpo(name="grpo", patience=3))
    equal = rollout(Group(prompt=PROMPTS[0], epoch=0, samples=(sample([5], reward=0.5), sample([6], reward=0.5))))
    metrics = rollout_metrics(equal, ("answer",))
    for _ in range(2):
        detector.check_rollout(equal, metrics)
    return refused(lambda: detector.check_rollout(equal, metrics), "3 rollouts in a row", "the same reward", "0.5")
