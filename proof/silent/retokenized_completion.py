"""A completion is decoded and tokenized again: other tokens are trained on than were sampled.

Reported: verl#6719, ms-swift#10012, minimind#850, NeMo-Gym#1416, trl#6250.
"""

from proof.silent._harness import Found, gemma, right_if
from tests.rollouts.making import PROMPTS, rollout, sample
from tests.rollouts.test_rollouts import SHAPE
from workings.rollouts.rollout import Group
from workings.ways.parts.rollout_batch import batch_of
from workings.ways.rewards import Grpo


def check() -> Found:
    """A completion whose tokens are not those of its text is trained on as it was sampled."""
    tokenizer = gemma().tokenizer
    sampled = [tokenizer.ids[letter] for letter in "What"]
    again = tokenizer.encode(tokenizer.decode(sampled))
    group = Group(prompt=PROMPTS[0], epoch=0, samples=(sample(sampled, reward=1.0, advantage=1.0),
                                                       sample([5], advantage=-1.0)))
    trained = batch_of(rollout(group), 0, SHAPE, Grpo(name="grpo")).tokens[0, 0, 2:6].tolist()
    return right_if(trained == sampled != again,
                    f"sampled {sampled}, trained on {trained}; its text has tokens {again}")
