"""Metrics of a rollout: pure functions, so that a verifier can recompute them."""

from collections.abc import Sequence
from statistics import fmean

import numpy as np

from workings.rollouts.rollout import Group, Rollout, Sample


def rollout_metrics(rollout: Rollout, names: Sequence[str]) -> dict[str, float]:
    """Metrics over all sampled groups; the first reward of ``names`` decides correctness: right from 1, wrong to 0."""
    samples = [sample for _, sample in rollout.all_samples]
    lengths = [len(sample.completion.tokens) - sum(turn.observed for turn in sample.turns) for sample in samples]
    return {
        **(_reward_metrics(rollout, names) if names else _teacher_metrics(rollout)),
        "completions": float(len(samples)),
        "completion_tokens": fmean(lengths), "completion_tokens_least": float(min(lengths)),
        "completion_tokens_most": float(max(lengths)),
        "truncated": fmean([float(sample.truncated) for sample in samples]),
        "empty": fmean([float(length == 0) for length in lengths]),
        **(_episode_metrics(samples) if samples[0].turns else {})}


def _episode_metrics(samples: Sequence[Sample]) -> dict[str, float]:
    turns = [len(sample.turns) for sample in samples]
    return {"turns": fmean(turns), "turns_most": float(max(turns)),
            "observed_tokens": fmean([sum(turn.observed for turn in sample.turns) for sample in samples])}


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
            # Without the bound a single token could make the mean infinite; e to the 20th is far beyond anything that
            # rounding explains.
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
