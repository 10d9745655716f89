"""Result of a training run; whether nothing could be learned, however short it was, or no answer ended."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.engines.base import State
from workings.runs.prepare import TrainSetup

LEAST = 1e-9
"""Sum of learning rates below which no answer changes, though a weight that was 0 does: every optimizer here moves a
weight by about the rate at most."""
Lines = Sequence[Mapping[str, Any]]


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """A sealed run."""

    status: str
    reason: str
    steps: int
    run: Path
    setup: TrainSetup
    state: State = None
    """The state after the last step; None if that was not kept in memory."""
    metrics: Lines = ()
    """Its metrics lines."""
    process: int = 0
    """Index of this process among those that ran together; only 0 has the run, its metrics and its state."""

    @property
    def final_loss(self) -> float | None:
        """Loss of the last step; None without one."""
        return self.metrics[-1]["loss"] if self.metrics else None

    @property
    def rewards(self) -> tuple[float, float] | None:
        """Mean rewards of the first and the last rollout; None in a run without rewards."""
        # If several updates share a rollout, only the line of the first one has its reward.
        rewards = [line["reward"] for line in self.metrics if "reward" in line]
        return (rewards[0], rewards[-1]) if rewards else None

    @property
    def learned_nothing(self) -> str:
        """Why the run cannot have learned anything; empty if it can have."""
        return learned_nothing(self.metrics)

    def to_json(self) -> dict[str, Any]:
        """Keys of `train --json`; a loss that does not exist is left out."""
        values: dict[str, Any] = {"status": self.status, "steps": self.steps, "run": str(self.run)}
        if self.rewards is not None:
            values |= {"first_reward": self.rewards[0], "final_reward": self.rewards[1]}
        values |= {"learned_nothing": self.learned_nothing} if self.learned_nothing else {}
        return values if self.final_loss is None else values | {"final_loss": self.final_loss}


def learned_nothing(lines: Lines) -> str:
    """Why a run cannot have learned anything; empty if weights changed and, in a run with rewards, rewards differed."""
    if not lines:
        return ""
    rollouts, causes = _rollouts(lines), []
    rewards = {line["reward"] for line in rollouts}
    if rollouts and len(rewards) == 1 and all(line["reward_deviation"] == 0 for line in rollouts):
        causes.append(f"all rewards were {rewards.pop():g}")
    elif rollouts and all(line["groups_without_spread"] == 1 for line in rollouts):
        causes.append("in every group all completions had the same reward")
    changed = any(line["share_of_weights_changed"] for line in lines)
    rates = math.fsum(line["learning_rate"] for line in lines)
    tiny = rates < LEAST
    if changed and not causes and not tiny:
        return ""
    causes = [*filter(None, [all_cut_off(lines)]), *causes]
    if changed and tiny:
        causes.append(f"all learning rates add up to {rates:.2g}")
    if changed:
        return f"nothing was learned: {' and '.join(causes)}"
    reason = f": {' and '.join(causes)}" if causes else (
        "; the learning rate is too small for precision.parameters, or every gradient is 0")
    return f"nothing was learned: no update changed a weight{reason}"


def all_cut_off(lines: Lines) -> str:
    """A sentence if every completion of a run with rewards was cut off; empty otherwise."""
    rollouts = _rollouts(lines)
    if not rollouts or any(line["truncated"] != 1 for line in rollouts):
        return ""
    completions = sum(int(line["completions"]) for line in rollouts)
    longest = max(int(line["completion_tokens_most"]) for line in rollouts)
    return f"all {completions:,} completions were cut off at {longest} tokens (algorithm.max_new_tokens)"


def _rollouts(lines: Lines) -> Lines:
    # Only the line of a rollout's first update has this key, and only in a run with rewards.
    return [line for line in lines if "groups_without_spread" in line]
