"""The end of a run from rewards that has nothing left to learn, a function of its recipe and its log only."""

from collections.abc import Mapping, Sequence
from typing import Any

EQUAL = "groups_without_spread"
"""Field of the metrics line of a rollout: the share of its groups whose completions all earned the same."""


def has_nothing_to_learn(line: Mapping[str, Any]) -> bool:
    """Whether every completion of the rollout is correct and no two of one prompt earned different rewards."""
    return bool(line["groups_all_right"] == 1 and line[EQUAL] == 1)


def nothing_left(section: Mapping[str, Any], lines: Sequence[Mapping[str, Any]]) -> str:
    """The reason of the end; empty for a run that has something to learn, or never had.

    Args:
        section: the recipe's `algorithm`.
        lines: of `train/metrics.jsonl`, in order.
    """
    patience = section.get("patience")
    rollouts = [line for line in lines if EQUAL in line]
    if not isinstance(patience, int) or patience < 1 or not (
            # Rewards that never differed are a mistake, not a success.
            any(line[EQUAL] < 1 for line in rollouts[:-patience])
            and all(map(has_nothing_to_learn, rollouts[-patience:]))):
        return ""
    return (f"nothing is left to learn: in {patience} rollout{'' if patience == 1 else 's'} in a row every completion "
            "was correct, which is algorithm.patience")
