"""Result of a training run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.engines.base import State
from workings.runs.prepare import TrainSetup
from workings.training.learned_nothing import all_cut_off, learned_nothing


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
    metrics: Sequence[Mapping[str, Any]] = ()
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
        """Why the run cannot have learned anything (`workings.training.learned_nothing`); empty if it can have."""
        return learned_nothing(self.metrics)

    @property
    def cut_off(self) -> str:
        """Warning if every completion was cut off; empty otherwise."""
        return all_cut_off(self.metrics)

    def to_json(self) -> dict[str, Any]:
        """Keys of `train --json`; a loss that does not exist is left out."""
        values: dict[str, Any] = {"status": self.status, "steps": self.steps, "run": str(self.run)}
        if self.rewards is not None:
            values |= {"first_reward": self.rewards[0], "final_reward": self.rewards[1]}
        values |= {"learned_nothing": self.learned_nothing} if self.learned_nothing else {}
        return values if self.final_loss is None else values | {"final_loss": self.final_loss}
