"""One rollout: groups of completions with rewards and advantages; its metrics, which a verifier recomputes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import fsum
from statistics import fmean
from typing import NamedTuple

import numpy as np

from workings.data.batches import Position
from workings.engines.base import Completion
from workings.models.tokenizer import Tokenizer
from workings.record.digest import bytes_digest
from workings.rollouts.prompts import Prompt
from workings.scoring.rewards import CompletionToReward

Rewards = Mapping[str, float]
"""Value of each reward of one completion by name, without its weight."""


class EpisodeTurn(NamedTuple):
    """A turn of the model in an episode, and the reply of the environment."""

    written: int
    """Tokens that the model wrote, stop token included."""
    observed: int
    """Tokens of the environment's reply with its chat turns; 0 after the last turn."""
    reward: float


@dataclass(frozen=True, kw_only=True)
class Sample:
    """A sampled completion with its rewards."""

    seed: int
    completion: Completion
    """Tokens, the stop token, and the log probability of each of them when it was sampled."""
    rewards: Rewards = field(default_factory=dict)
    reward: float = 0.0
    """Sum of weights times values."""
    advantage: float = 0.0
    judge_reply: str = ""
    turns: tuple[EpisodeTurn, ...] = ()
    """Turns of an episode, whose tokens are all in ``completion``; empty without an environment."""
    done: bool = False
    """Whether the environment ended the episode; otherwise a limit did."""

    @property
    def tokens_with_stop(self) -> list[int]:
        """All tokens after the prompt, including the last stop token."""
        stop = self.completion.stop_token
        return self.completion.tokens if stop is None else [*self.completion.tokens, stop]

    @property
    def written(self) -> np.ndarray:
        """bool: which of `tokens_with_stop` the model wrote, and learns: 1 1 1 0 0 1 for turns (3, 2) and (1, 0)."""
        if not self.turns:
            return np.ones(len(self.tokens_with_stop), bool)
        counts = [count for turn in self.turns for count in (turn.written, turn.observed)]
        return np.repeat(np.arange(len(counts)) % 2 == 0, counts)

    @property
    def written_tokens(self) -> list[int]:
        """The tokens that the model wrote, without the last stop token."""
        return [token for token, written in zip(self.completion.tokens, self.written, strict=False) if written]

    @property
    def truncated(self) -> bool:
        """Whether a limit ended it."""
        return not self.done if self.turns else self.completion.stop_token is None

    @property
    def episode_reward(self) -> float:
        """Sum of the rewards of its turns."""
        return fsum(turn.reward for turn in self.turns)


@dataclass(frozen=True, kw_only=True)
class Group:
    """The completions of one prompt."""

    prompt: Prompt
    epoch: int
    samples: tuple[Sample, ...]
    kept: bool = True
    """Whether an update is trained on it; dynamic sampling leaves groups out."""

    @property
    def is_rewarded(self) -> bool:
        """Whether its completions have rewards; in distillation they have none."""
        return bool(self.samples[0].rewards)

    @property
    def has_spread(self) -> bool:
        """Whether its rewards differ: otherwise every advantage is 0."""
        return len({sample.reward for sample in self.samples}) > 1

    def with_advantages(self, advantages: Callable[[Sequence[float]], Sequence[float]]) -> "Group":
        """The group with the advantages that its rewards give by a function."""
        values = advantages([sample.reward for sample in self.samples])
        return replace(self, samples=tuple(replace(sample, advantage=advantage)
                                           for sample, advantage in zip(self.samples, values, strict=True)))


@dataclass(frozen=True, kw_only=True)
class Rollout:
    """Completions that were sampled before an update, for it and, with several updates per rollout, the next ones."""

    step: int
    """First update that is trained on it, from 1; it was sampled with the weights before that update."""
    position: Position
    """Position of its first prompt in the data."""
    after: Position
    """Position of the next rollout's first prompt."""
    groups: tuple[Group, ...]
    sampler: Mapping[str, str] = field(default_factory=dict)
    """Program that sampled it: name, version, digest of the adapters; empty for the engine itself."""
    # Both are left out of `==`, which has no truth value for arrays.
    trainer_log_probs: tuple[np.ndarray, ...] = field(default=(), compare=False)
    """Log probabilities, float32, of each trained sample's tokens as the first update computed them."""
    reference_log_probs: tuple[np.ndarray, ...] = field(default=(), compare=False)
    """The same under a frozen model (the first weights, or a teacher); empty without one."""

    @property
    def all_samples(self) -> list[tuple[Prompt, Sample]]:
        """All samples with their prompts, in order."""
        return [(group.prompt, sample) for group in self.groups for sample in group.samples]

    @property
    def trained_samples(self) -> list[tuple[Prompt, Sample]]:
        """Samples of the groups that updates are trained on, with their prompts, in order."""
        return [(group.prompt, sample) for group in self.groups if group.kept for sample in group.samples]


def to_reward(prompt: Prompt, sample: Sample, tokenizer: Tokenizer) -> CompletionToReward:
    """The input of rewards for a sample."""
    return CompletionToReward(
        item=prompt.item, text=tokenizer.decode(sample.completion.tokens), truncated=sample.truncated,
        # Only what the model wrote counts in its length.
        tokens=sample.written_tokens, episode_reward=sample.episode_reward)


def sample_seed(seed: int, step: int, epoch: int, prompt: str, number: int) -> int:
    """Sampling seed (below 2**32) of sample ``number`` of a group, from 0: a hash of these arguments only."""
    # The id is last, because only it may contain a slash: texts are unique.
    return int(bytes_digest(f"rollout/{seed}/{step}/{epoch}/{number}/{prompt}".encode())[:8], 16)


def select_groups(spreads: Sequence[bool], wanted: int, *, dynamic: bool) -> list[bool]:
    """Selects the groups that updates are trained on: the first ``wanted``, with ``dynamic`` only those with spread."""
    kept: list[bool] = []
    for spread in spreads:
        kept.append(sum(kept) < wanted and (spread or not dynamic))
    return kept


def rollout_metrics(rollout: Rollout, names: Sequence[str]) -> dict[str, float]:
    """Metrics over all sampled groups; the first reward of ``names`` decides correctness: right from 1, wrong to 0."""
    samples = [sample for _, sample in rollout.all_samples]
    lengths = [len(sample.completion.tokens) - sum(turn.observed for turn in sample.turns) for sample in samples]
    metrics = {
        **(_reward_metrics(rollout, names) if names else _teacher_metrics(rollout)),
        "completions": float(len(samples)),
        "completion_tokens": fmean(lengths), "completion_tokens_least": float(min(lengths)),
        "completion_tokens_most": float(max(lengths)),
        "truncated": fmean([float(sample.truncated) for sample in samples]),
        "empty": fmean([float(length == 0) for length in lengths])}
    if samples[0].turns:
        turns = [len(sample.turns) for sample in samples]
        metrics |= {"turns": fmean(turns), "turns_most": float(max(turns)),
                    "observed_tokens": fmean([sum(turn.observed for turn in sample.turns) for sample in samples])}
    return metrics


def _reward_metrics(rollout: Rollout, names: Sequence[str]) -> dict[str, float]:
    samples = [sample for _, sample in rollout.all_samples]
    # Divided by the count below; advantages use one less, within each group.
    rewards = [sample.reward for sample in samples]
    sides = [_side(group, names[0]) for group in rollout.groups]
    return {
        "reward": fmean(rewards), "reward_deviation": float(np.std(rewards)),
        **{f"reward_{name}": fmean([sample.rewards[name] for sample in samples]) for name in names},
        **{f"groups_{side}": sides.count(side) / len(sides) for side in ("all_wrong", "mixed", "all_right")},
        "groups_without_spread": fmean([float(not group.has_spread) for group in rollout.groups]),
        "groups_left_out": fmean([float(not group.kept) for group in rollout.groups])}


def _teacher_metrics(rollout: Rollout) -> dict[str, float]:
    """Divergence from the teacher in nats per token, estimated on the sampled tokens."""
    # log p - log q of sampled tokens is an unbiased estimate of the divergence; over few tokens it may be below zero.
    difference = _sampler_log_probs(rollout).astype(np.float64) - np.concatenate(rollout.reference_log_probs)
    return {"kl_teacher": float(difference.mean())}


def mismatch(rollout: Rollout) -> dict[str, float]:
    """Disagreement of sampler and trained model about the sampled tokens.

    Both have the same weights: a difference is rounding (a cache, a kernel, a number format) or a mistake. Mean and
    largest absolute difference of log probabilities in nats, and the mean ratio of probabilities, which should be 1.
    """
    if not rollout.trained_samples:
        return {}
    difference = np.concatenate(rollout.trainer_log_probs).astype(np.float64) - _sampler_log_probs(rollout)
    # Replies of an environment were not sampled.
    difference = difference[np.concatenate([sample.written for _, sample in rollout.trained_samples])]
    return {"mismatch": float(np.abs(difference).mean()), "mismatch_most": float(np.abs(difference).max()),
            # Bounded, because a single token could make the mean infinite; rounding never explains e to the 20th.
            "mismatch_ratio": float(np.exp(np.clip(difference, -20, 20)).mean())}


def _sampler_log_probs(rollout: Rollout) -> np.ndarray:
    """Log probabilities, float32, of the trained tokens when they were sampled."""
    return np.concatenate([np.asarray(sample.completion.log_probs, np.float32)
                           for _, sample in rollout.trained_samples])


def _side(group: Group, name: str) -> str:
    values = [sample.rewards[name] for sample in group.samples]
    if all(value >= 1 for value in values):
        return "all_right"
    return "all_wrong" if all(value <= 0 for value in values) else "mixed"
