"""A rollout of two groups, made by hand."""

from dataclasses import replace

import numpy as np

from workings.data.batches import Position
from workings.engines.base import Completion
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import Group, Rollout, Sample
from workings.scoring.items import Item

PROMPTS = tuple(Prompt(Item(id=f"p{n}", prompt=f"What is {n}?", expected_answer=str(n)), tuple(range(2, 4 + n)))
                for n in range(5))


def sample(tokens: list[int], *, stop: int | None = 1, reward: float = 0.0, advantage: float = 0.0,
           log_prob: float = -0.5) -> Sample:
    """A completion of these tokens, its log probabilities multiples of one number."""
    count = len(tokens) + (stop is not None)
    return Sample(seed=3, rewards={"answer": reward}, reward=reward, advantage=advantage, completion=Completion(
        tokens=tokens, finish_reason="stop" if stop is not None else "length", stop_token=stop,
        log_probs=[np.float32(log_prob * (n + 1)).item() for n in range(count)]))


def rollout(*groups: Group, **more: object) -> Rollout:
    """A rollout of the first step with these groups."""
    rollout = Rollout(step=1, position=Position(0, 0), after=Position(0, 2), groups=groups)
    log_probs = tuple(np.asarray(sample.completion.log_probs, np.float32) * np.float32(1.0001)
                      for _, sample in rollout.trained_samples)
    return replace(rollout, **({"trainer_log_probs": log_probs} | more))


TWO = rollout(
    Group(prompt=PROMPTS[0], epoch=0, samples=(sample([5, 6], reward=1.0, advantage=0.5),
                                               sample([7], stop=None, advantage=-0.5))),
    Group(prompt=PROMPTS[1], epoch=0, samples=(sample([8], reward=1.0), sample([], reward=1.0))))
