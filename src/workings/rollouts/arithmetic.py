"""From a rollout to the numbers of a step's line: pure, so that a verifier computes them again."""

from collections.abc import Sequence

import numpy as np

from workings.config.algorithms.base import mean
from workings.rollouts.rollout import Group, Rollout


def rollout_metrics(rollout: Rollout, names: Sequence[str]) -> dict[str, float]:
    """What a rollout says of the model, over all groups that were drawn, left-out ones included.

    Args:
        rollout: with its rewards, or with what the teacher says.
        names: of the rewards, none for a run without; the first one says what is right: 1 or more is right, 0 or
            less is wrong.
    """
    samples = [sample for _, sample in rollout.drawn]
    lengths = [len(sample.completion.tokens) for sample in samples]
    return {
        **(_reward_metrics(rollout, names) if names else _teacher_metrics(rollout)),
        "completions": float(len(samples)),
        "completion_tokens": mean(lengths), "completion_tokens_least": float(min(lengths)),
        "completion_tokens_most": float(max(lengths)),
        "truncated": mean([float(sample.completion.stop_token is None) for sample in samples]),
        "empty": mean([float(length == 0) for length in lengths])}


def _reward_metrics(rollout: Rollout, names: Sequence[str]) -> dict[str, float]:
    samples = [sample for _, sample in rollout.drawn]
    # Divided by the count below; advantages use one less, within each group (`standard_deviation`).
    rewards = [sample.reward for sample in samples]
    sides = [_side(group, names[0]) for group in rollout.groups]
    return {
        "reward": mean(rewards), "reward_deviation": float(np.std(rewards)),
        **{f"reward_{name}": mean([sample.rewards[name] for sample in samples]) for name in names},
        **{f"groups_{side}": sides.count(side) / len(sides) for side in ("all_wrong", "mixed", "all_right")},
        "groups_without_spread": mean([float(not group.has_spread) for group in rollout.groups]),
        "groups_left_out": mean([float(not group.kept) for group in rollout.groups])}


def _teacher_metrics(rollout: Rollout) -> dict[str, float]:
    """Divergence from the teacher in nats a token: how much likelier the drawn tokens were when they were drawn."""
    # log p - log q of drawn tokens is an estimate of the divergence without bias; of few tokens it may lie below zero.
    drawn = np.concatenate([np.asarray(sample.completion.log_probs, np.float32) for _, sample in rollout.learned])
    return {"kl_teacher": float((drawn.astype(np.float64) - np.concatenate(rollout.reference_log_probs)).mean())}


def mismatch(rollout: Rollout) -> dict[str, float]:
    """How far the model that is trained and the one that drew disagree about the tokens that were drawn.

    Both have the same weights: what differs is arithmetic (a cache, a kernel, a number format) or a mistake. Mean and
    largest absolute difference of log probabilities in nats, and the mean ratio of probabilities, which should be 1.
    """
    learned = rollout.learned
    if not learned:
        return {}
    drawn = np.concatenate([np.asarray(sample.completion.log_probs, np.float32) for _, sample in learned])
    said = np.concatenate(rollout.trainer_log_probs)
    difference = said.astype(np.float64) - drawn
    return {"mismatch": float(np.abs(difference).mean()), "mismatch_most": float(np.abs(difference).max()),
            # Without the bound a single token could make the mean infinite; e to the 20th is far beyond anything that
            # arithmetic of two programs explains.
            "mismatch_ratio": float(np.exp(np.clip(difference, -20, 20)).mean())}


def _side(group: Group, name: str) -> str:
    values = [sample.rewards[name] for sample in group.samples]
    if all(value >= 1 for value in values):
        return "all_right"
    return "all_wrong" if all(value <= 0 for value in values) else "mixed"
