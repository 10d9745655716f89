"""Result of a training run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.engines.base import State
from workings.runs.prepare import TrainSetup
from workings.training.learned_nothing import all_cut_off, learned_nothing

SHARED_FIELDS = ("status", "reason", "steps", "supervised_tokens", "final_loss", "rewards", "learned_nothing",
                 "cut_off")
"""Fields of a result that process 0 sends to the other processes."""


@dataclass(frozen=True, kw_only=True)
class TrainResult:
    """A sealed run."""

    status: str
    reason: str
    steps: int
    supervised_tokens: int
    final_loss: float | None
    rewards: tuple[float, float] | None
    """Mean rewards of the first and the last rollout; None in a run without rewards."""
    learned_nothing: str
    """Why the run cannot have learned anything (`workings.training.learned_nothing`); empty if it can have."""
    cut_off: str
    """Warning if every completion was cut off; empty otherwise."""
    run: Path
    setup: TrainSetup
    state: State
    state_step: int = 0
    """Step whose weights the state has; 0 for the last one."""
    reward_failed: bool = False
    """The run failed because a reward function did."""
    process: int = 0
    """Index of this process among those that ran together; only 0 has the run and its state."""

    @classmethod
    def of_metrics(cls, metrics: Sequence[Mapping[str, Any]], **own: Any) -> "TrainResult":
        """The result of a run with these metrics lines; ``own``: the fields that do not follow from them."""
        # If several updates share a rollout, only the line of the first one has its reward.
        rewards = [line["reward"] for line in metrics if "reward" in line]
        return cls(**own, final_loss=metrics[-1]["loss"] if metrics else None,
                   rewards=(rewards[0], rewards[-1]) if rewards else None, learned_nothing=learned_nothing(metrics),
                   cut_off=all_cut_off(metrics))

    def shared_fields(self) -> dict[str, Any]:
        """The fields that process 0 sends to the other processes."""
        return {name: getattr(self, name) for name in SHARED_FIELDS}

    @classmethod
    def of_worker(cls, shared: Mapping[str, Any], **own: Any) -> "TrainResult":
        """The result in a process that took part and wrote nothing.

        Args:
            shared: values of the last call of process 0, its `shared_fields` among them, as JSON gives them back.
            own: the other fields.
        """
        fields = {name: shared[name] for name in SHARED_FIELDS}
        rewards = tuple(fields["rewards"]) if fields["rewards"] else None
        return cls(**{**fields, "rewards": rewards}, state=None, **own)

    def to_json(self) -> dict[str, Any]:
        """Keys of `train --json`; a loss that does not exist is left out."""
        values: dict[str, Any] = {"status": self.status, "steps": self.steps, "run": str(self.run)}
        if self.rewards is not None:
            values |= {"first_reward": self.rewards[0], "final_reward": self.rewards[1]}
        values |= {"learned_nothing": self.learned_nothing} if self.learned_nothing else {}
        return values if self.final_loss is None else values | {"final_loss": self.final_loss}
