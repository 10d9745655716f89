"""Settings and result of a training run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from workings.engines.base import State
from workings.evaluation.settings import EvaluationSettings, settings_of
from workings.runs.prepare import TrainSetup
from workings.scoring.items import Item
from workings.scoring.scorers import scorer_version
from workings.ways.base import way_of


@dataclass(frozen=True, kw_only=True)
class LoopSettings:
    """When checkpoints are saved and when the model is evaluated.

    A recipe with a key that has no meaning here was refused when it was loaded.
    """

    name: str
    save_every: int
    keep_last: int
    evaluate_every: int = 0
    questions: tuple[Item, ...] = ()
    """Questions whose answers are logged at each evaluation."""
    max_new_tokens: int = 0
    evaluation: EvaluationSettings | None = None
    """How the items are answered after training; None without items."""
    base: bool = False
    """Whether the untrained model answers them too."""
    held_out_items: int = 0
    """Number of items that are answered and scored at each evaluation."""

    @classmethod
    def from_setup(cls, setup: TrainSetup) -> "LoopSettings":
        """The settings that the recipe's sections `checkpoint` and `evaluation` give for this run."""
        recipe, items = setup.recipe, setup.data.items
        settings = cls(name=recipe.name, save_every=recipe.checkpoint.every_steps,
                       keep_last=recipe.checkpoint.keep_last)
        if items or setup.held_out:
            settings = replace(settings, evaluate_every=recipe.evaluation.every_steps)
        if items:
            evaluation = settings_of(recipe)
            scorer_version(evaluation.scorer)  # one whose library is missing is refused now, and not after training
            settings = replace(settings, questions=tuple(items[:recipe.evaluation.samples]),
                               max_new_tokens=evaluation.max_new_tokens, evaluation=evaluation,
                               base=recipe.evaluation.base)
            settings = replace(settings, held_out_items=min(way_of(recipe).watched_items(recipe), len(items)))
        return settings


SHARED_FIELDS = ("status", "reason", "steps", "supervised_tokens", "final_loss", "rewards", "learned_nothing")
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
    run: Path
    setup: TrainSetup
    settings: LoopSettings
    state: State
    process: int = 0
    """Index of this process among those that ran together; only 0 has the run and its state."""

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


def first_and_last_reward(metrics: Sequence[Mapping[str, Any]]) -> tuple[float, float] | None:
    """Mean rewards of the first and the last rollout; None if there is none."""
    # If several updates share a rollout, only the line of the first one has its reward.
    rewards = [line["reward"] for line in metrics if "reward" in line]
    return (rewards[0], rewards[-1]) if rewards else None
