"""The result of a training run, and the reasons why a run cannot have learned anything.

The reasons are read from the run's metrics: one mapping for each update. In a run with rewards, the first update after
each rollout also has the facts of that rollout. Its line then looks like this::

    {"step": 1, "loss": 0.1, "learning_rate": 1e-6, "share_of_weights_changed": 0.2,
     "reward": 0.5, "reward_deviation": 0.5, "groups_without_spread": 0.25, "truncated": 0.1, ...}
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from typing import Any

from workings.engines.base import State
from workings.record.metrics import EQUAL
from workings.runs.prepare import TrainSetup

MetricsLines = Sequence[Mapping[str, Any]]
NEGLIGIBLE_RATE = 1e-9
"""If the learning rates of a run add up to less, no answer changes: an update moves a weight by about the rate."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """The result of `train`: a sealed run and what is still in memory of it."""

    status: str
    """`complete`, `interrupted` or `failed`."""
    reason: str
    steps: int
    run: Path
    setup: TrainSetup
    state: State = None
    """The state after the last step; None if it is no longer in memory."""
    metrics: MetricsLines = ()
    process: int = 0
    """Index of this process in its group. Only process 0 has the run, its metrics and its state."""

    @property
    def final_loss(self) -> float | None:
        """Loss of the last step; None without steps."""
        return self.metrics[-1]["loss"] if self.metrics else None

    @property
    def rewards(self) -> tuple[float, float] | None:
        """Mean rewards of the first and of the last rollout; None in a run without rewards."""
        rewards = [line["reward"] for line in self.metrics if "reward" in line]
        return (rewards[0], rewards[-1]) if rewards else None

    @property
    def learned_nothing(self) -> str:
        """Why the run cannot have learned anything; an empty text if it may have learned something."""
        return learned_nothing(self.metrics)

    def to_json(self) -> dict[str, Any]:
        """Keys of `train --json`. Values that do not exist are left out."""
        values: dict[str, Any] = {"status": self.status, "steps": self.steps, "run": str(self.run)}
        if self.rewards is not None:
            values["first_reward"], values["final_reward"] = self.rewards
        if self.learned_nothing:
            values["learned_nothing"] = self.learned_nothing
        if self.final_loss is not None:
            values["final_loss"] = self.final_loss
        return values


def learned_nothing(lines: MetricsLines) -> str:
    """Why a run with these metrics cannot have learned anything; an empty text if it may have learned something."""
    if not lines:
        return ""
    equal_rewards = _equal_rewards(lines)
    causes = [cause for cause in (all_cut_off(lines), equal_rewards) if cause]
    if not any(line["share_of_weights_changed"] for line in lines):
        why = f": {' and '.join(causes)}" if causes else (
            "; the learning rate is too small for precision.parameters, or every gradient is 0")
        return f"nothing was learned: no update changed a weight{why}"
    rates = fsum(line["learning_rate"] for line in lines)
    if rates < NEGLIGIBLE_RATE:
        causes.append(f"all learning rates add up to {rates:.2g}")
    elif not equal_rewards:
        # The rewards of completions that were cut off may differ, so the run may have learned from them.
        return ""
    return f"nothing was learned: {' and '.join(causes)}"


def all_cut_off(lines: MetricsLines) -> str:
    """A clause if every completion of a run with rewards was cut off; otherwise an empty text."""
    rollouts = _rollouts(lines)
    if not rollouts or any(line["truncated"] != 1 for line in rollouts):
        return ""
    completions = sum(int(line["completions"]) for line in rollouts)
    longest = max(int(line["completion_tokens_most"]) for line in rollouts)
    return f"all {completions:,} completions were cut off at {longest} tokens (algorithm.max_new_tokens)"


def _equal_rewards(lines: MetricsLines) -> str:
    """A clause if no reward tells a better completion from a worse one; otherwise an empty text."""
    rollouts = _rollouts(lines)
    if not rollouts:
        return ""
    rewards = {line["reward"] for line in rollouts}
    if len(rewards) == 1 and all(line["reward_deviation"] == 0 for line in rollouts):
        return f"all rewards were {rewards.pop():g}"
    if all(line[EQUAL] == 1 for line in rollouts):
        return "in every group all completions had the same reward"
    return ""


def _rollouts(lines: MetricsLines) -> MetricsLines:
    """The lines with the facts of a rollout; none in a run without rewards."""
    return [line for line in lines if EQUAL in line]
