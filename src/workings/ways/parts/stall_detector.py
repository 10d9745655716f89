"""Stops runs that cannot be learning, as soon as that shows, instead of training on for hours."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workings.engines.base import StepResult
from workings.errors import TrainingFailed
from workings.models.batch import Batch
from workings.record.metrics import EQUAL, has_nothing_to_learn
from workings.rollouts.rollout import Rollout
from workings.ways.parts.rollout_way import RolloutWay


@dataclass
class StallDetector:
    """Counts consecutive rollouts or updates without anything to learn; all counts follow from the metrics lines."""

    algorithm: RolloutWay
    equal_reward_rollouts: int = 0
    """Rollouts in a row in which the rewards of every group were equal."""
    truncated_rollouts: int = 0
    """Rollouts in a row in which every completion was cut off."""
    unchanged_updates: int = 0
    """Updates in a row that changed no weight."""
    rewards_differed: bool = False
    """In a group of some rollout they did."""
    nothing_to_learn: bool = False
    """Every completion of the last rollout is correct and earned the same, after rewards that differed. Such a rollout
    does not count: after as many in a row the run is complete (`workings.record.metrics`)."""

    @classmethod
    def from_lines(cls, algorithm: RolloutWay, lines: Sequence[Mapping[str, Any]]) -> "StallDetector":
        """The detector after these metrics lines."""
        detector = cls(algorithm)
        for line in lines:
            # On the line of a rollout's first update, in runs with rewards. A mean of ones is exactly 1: `mean` does
            # not round.
            if EQUAL in line:
                detector._count_rollout(line)
            detector._count_update(line["share_of_weights_changed"] == 0)
        return detector

    def check_rollout(self, rollout: Rollout, metrics: Mapping[str, float]) -> None:
        """Raises `TrainingFailed` if too many rollouts in a row had equal rewards or no completion that ended."""
        if not self.algorithm.compares_completions:
            return  # a teacher judges every token, also those of completions that were cut off
        samples = [sample for _, sample in rollout.all_samples]
        self._count_rollout(metrics)
        patience = self.algorithm.patience
        # First, because completions that are all cut off mostly earn alike as well, and this is then the cause.
        if self.truncated_rollouts >= patience:
            raise TrainingFailed(
                f"not learning: in {self.truncated_rollouts} rollouts in a row every completion was cut off at "
                f"algorithm.max_new_tokens ({self.algorithm.max_new_tokens}); the model does not end its answers"
                if not samples[0].turns else
                f"not learning: in {self.truncated_rollouts} rollouts in a row no episode ended within "
                "environment.turns and data.max_length")
        if self.equal_reward_rollouts >= patience:
            values = sorted({sample.reward for sample in samples})
            raise TrainingFailed(
                f"not learning: in {self.equal_reward_rollouts} rollouts in a row all completions of each prompt had "
                f"the same reward (the last ones: {', '.join(f'{value:g}' for value in values[:3])}); there is nothing "
                "to compare: other prompts, a larger algorithm.group, or a finer reward")
        if not rollout.trained_samples:
            raise TrainingFailed(
                f"not learning: of {len(rollout.groups)} groups that were sampled for update {rollout.step} none had "
                "rewards that differ (algorithm.max_resamples)"
                + "; every completion is correct, so nothing is left to learn" * self.nothing_to_learn)

    def check_batch(self, rollout: Rollout, step: int, batch: Batch) -> None:
        """Raises `TrainingFailed` if no completion of the rollout is left for this one of its updates."""
        if not batch.supervised_tokens:  # the updates before it were filled first
            raise TrainingFailed(
                f"not learning: too few of the {len(rollout.groups)} groups that were sampled for update "
                f"{rollout.step} had rewards that differ, and none is left for update {step} "
                "(more algorithm.max_resamples, or fewer algorithm.updates)")

    def check_update(self, step: int, mismatch: Mapping[str, float], result: StepResult) -> None:
        """Raises `TrainingFailed` if sampler and trained model disagree, or too many updates changed no weight.

        ``mismatch`` is empty for later updates of a rollout, because the weights have changed by then.
        """
        # First, because samples of another model would explain everything else that goes wrong.
        most = self.algorithm.max_mismatch
        if mismatch.get("mismatch", 0.0) > most:
            raise TrainingFailed(
                f"not learning from its own samples: at update {step} the sampler and the trained model disagree by "
                f"{mismatch['mismatch']:.3g} nats per token on the sampled tokens; rounding explains at most {most:g} "
                "(algorithm.max_mismatch), so the completions come from another model")
        self._count_update(result.share_of_weights_changed == 0)
        # In bfloat16 an update below about 1/512 of a weight rounds to nothing (`precision.rounding`).
        if self.unchanged_updates >= self.algorithm.patience:
            raise TrainingFailed(
                f"not learning: {self.unchanged_updates} updates in a row changed no weight; the learning rate is too "
                "small for precision.parameters, or every advantage is 0")

    def _count_rollout(self, metrics: Mapping[str, Any]) -> None:
        self.rewards_differed |= metrics[EQUAL] < 1
        self.nothing_to_learn = self.rewards_differed and has_nothing_to_learn(metrics)
        equal_rewards = metrics[EQUAL] == 1 and not self.nothing_to_learn
        self.equal_reward_rollouts = self.equal_reward_rollouts + 1 if equal_rewards else 0
        self.truncated_rollouts = self.truncated_rollouts + 1 if metrics["truncated"] == 1 else 0

    def _count_update(self, unchanged: bool) -> None:
        self.unchanged_updates = self.unchanged_updates + 1 if unchanged and not self.nothing_to_learn else 0
