"""A run stops where it cannot be learning: said at once, instead of found out when its hours are spent."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workings.config.algorithms import DrawingAlgorithm, RewardAlgorithm
from workings.engines.base import StepResult
from workings.errors import TrainingFailed
from workings.rollouts.rollout import Rollout


@dataclass
class Health:
    """Counts how long nothing could be learned.

    Made from the lines so far, so that a resumed run stops where the uninterrupted one would.
    """

    algorithm: DrawingAlgorithm
    without_spread: int = 0
    """Rollouts in a row in which no group had rewards that differ."""
    without_end: int = 0
    """Rollouts in a row in which every completion was cut off."""
    unchanged: int = 0
    """Updates in a row that changed no weight."""

    @classmethod
    def of(cls, algorithm: DrawingAlgorithm, lines: Sequence[Mapping[str, Any]]) -> "Health":
        """As it stands after these lines of the log."""
        health = cls(algorithm)
        for line in lines:
            # On the line of a rollout's first update, in runs with rewards. A mean of ones is exactly 1: `mean` does
            # not round.
            if "groups_without_spread" in line:
                health._count(line["groups_without_spread"] == 1, line["truncated"] == 1)
            health.unchanged = health.unchanged + 1 if line["share_of_weights_changed"] == 0 else 0
        return health

    def drawn(self, rollout: Rollout) -> None:
        """Look at a rollout before it is learned from. Raises `TrainingFailed`."""
        if not isinstance(self.algorithm, RewardAlgorithm):
            return  # a teacher judges every token, also of what did not end
        samples = [sample for _, sample in rollout.drawn]
        self._count(not any(group.has_spread for group in rollout.groups),
                    all(sample.completion.stop_token is None for sample in samples))
        patience = self.algorithm.patience
        # First, because completions that are all cut off mostly earn alike as well, and this is then the cause.
        if self.without_end >= patience:
            raise TrainingFailed(
                f"not learning: in {self.without_end} rollouts in a row every completion was cut off at "
                f"algorithm.max_new_tokens ({self.algorithm.max_new_tokens}); the model does not end its answers")
        if self.without_spread >= patience:
            values = sorted({sample.reward for sample in samples})
            raise TrainingFailed(
                f"not learning: in {self.without_spread} rollouts in a row all completions of each prompt had the same "
                f"reward (the last ones: {', '.join(f'{value:g}' for value in values[:3])}); there is nothing to "
                "compare: other prompts, a larger algorithm.group, or a reward that tells more apart")
        if not rollout.learned:
            raise TrainingFailed(
                f"not learning: of {len(rollout.groups)} groups that were drawn for update {rollout.step} none had "
                "rewards that differ (algorithm.draws)")

    def learned(self, step: int, mismatch: Mapping[str, float], result: StepResult) -> None:
        """Look at an update. Raises `TrainingFailed`."""
        most = self.algorithm.most_mismatch
        # Empty for the later updates of a rollout: weights have moved by then, and a difference is no mistake.
        if mismatch.get("mismatch", 0.0) > most:
            raise TrainingFailed(
                f"not learning from its own samples: at update {step} the log probabilities of the drawn tokens differ "
                f"by {mismatch['mismatch']:.3g} nats a token from what the trained model says, and at most "
                f"algorithm.most_mismatch ({most:g}) may be arithmetic; something draws from another model")
        self.unchanged = self.unchanged + 1 if result.share_of_weights_changed == 0 else 0
        if self.unchanged >= self.algorithm.patience:
            raise TrainingFailed(
                f"not learning: {self.unchanged} updates in a row changed no weight; the learning rate is too small "
                "for precision.parameters, or every advantage is 0")

    def _count(self, no_spread: bool, no_end: bool) -> None:
        self.without_spread = self.without_spread + 1 if no_spread else 0
        self.without_end = self.without_end + 1 if no_end else 0
