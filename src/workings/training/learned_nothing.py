"""The sentence about a finished run in which nothing could be learned, however short it was."""

from collections.abc import Mapping, Sequence
from typing import Any


def learned_nothing(lines: Sequence[Mapping[str, Any]]) -> str:
    """Why a run cannot have learned anything; empty if it can have.

    Args:
        lines: all metrics lines of the run.
    """
    if not lines:
        return ""
    # Only the line of a rollout's first update has these keys, and only in a run with rewards.
    rollouts = [line for line in lines if "groups_without_spread" in line]
    causes = []
    if rollouts and all(line["truncated"] == 1 for line in rollouts):
        completions = sum(int(line["completions"]) for line in rollouts)
        longest = max(int(line["completion_tokens_most"]) for line in rollouts)
        causes.append(f"all {completions:,} completions were cut off at {longest} tokens (algorithm.max_new_tokens)")
    rewards = {line["reward"] for line in rollouts}
    if rollouts and len(rewards) == 1 and all(line["reward_deviation"] == 0 for line in rollouts):
        causes.append(f"all rewards were {rewards.pop():g}")
    elif rollouts and all(line["groups_without_spread"] == 1 for line in rollouts):
        causes.append("in every group all completions had the same reward")
    if all(line["share_of_weights_changed"] == 0 for line in lines):
        reason = f": {' and '.join(causes)}" if causes else (
            "; the learning rate is too small for precision.parameters, or every gradient is 0")
        return f"nothing was learned: no update changed a weight{reason}"
    return f"nothing was learned: {' and '.join(causes)}" if causes else ""
