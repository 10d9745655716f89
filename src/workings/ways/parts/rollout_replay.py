"""Batches of recorded rollouts, sampled again: the same prompts, seeds and weights must give the same completions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workings.data.batches import Position
from workings.engines.base import State
from workings.environments.process import EnvironmentProcess
from workings.errors import RecordError
from workings.rollouts.rollout import Group, Rollout, digest_of
from workings.scoring.rewards import CompletionToReward, total
from workings.ways.parts.replay_source import ReopenedRun, StepInputs
from workings.ways.parts.rollout_experience import RolloutSampler
from workings.ways.parts.training_data import PromptData, reward_settings

MAX_LOG_PROB_DIFFERENCE = 0.25
"""Largest difference, in nats, of a token's log probability under a frozen model and other conditions."""
Change = Callable[[Rollout, RolloutSampler], Rollout]


@dataclass(frozen=True, kw_only=True)
class RecordedRewards:
    """Gives a completion that is the recorded one its recorded rewards, and any other completion zeros.

    No reward is computed here: level 2 of `verify` does that, and a user's function is never run from a record.
    """

    recorded: Rollout

    @property
    def replies(self) -> list[str]:
        """None: a judge's replies belong to no batch."""
        return []

    def score(self, samples: Sequence[CompletionToReward]) -> list[dict[str, float]]:
        """Rewards of some samples."""
        known = {(prompt.item.id, tuple(sample.written_tokens), sample.truncated):
                 dict(sample.rewards) for prompt, sample in self.recorded.all_samples}
        zeros = dict.fromkeys(self.recorded.groups[0].samples[0].rewards, 0.0)
        return [known.get((sample.item.id, tuple(sample.tokens), sample.truncated), zeros) for sample in samples]


@dataclass(frozen=True, kw_only=True)
class RolloutSource:
    """Batches of recorded updates, with rollouts that are sampled again from the weights before the update."""

    sampler: RolloutSampler
    recorded: Callable[[int], Rollout | None]
    """The rollout whose first update is this one; None without one."""
    exact: bool
    """Whether the update uses the completions that are sampled here. Where other bits are allowed it uses the recorded
    ones, because last bits would make another batch."""
    change: Change
    """For controls: makes the rollout to use in place of the correct one."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of an update. Raises `RecordError` where the record has no rollout for it."""
        updates = self.sampler.shape.updates
        part = (step - 1) % updates
        recorded = self.recorded(step - part)
        if recorded is None:
            raise RecordError(f"no rollout of step {step - part}")
        used, counts = recorded, None
        # The recorded rollout is used at its later updates, whose sampling weights are gone, and if another program
        # sampled or an environment is not played again.
        is_played = self.sampler.rules is None or self.sampler.player is not None
        if part == 0 and not recorded.sampler and is_played:
            repeated = replace(self.sampler, rewarder=RecordedRewards(recorded=recorded)).rollout(state, position, step)
            if self.sampler.reference is None and recorded.reference_log_probs:
                repeated = replace(repeated, reference_log_probs=_as_recorded(recorded, repeated))
            counts = _counts(recorded, repeated)
            used = repeated if self.exact else recorded
        batch = self.sampler.batch(self.change(used, self.sampler), step)
        return StepInputs(batch=batch, after=recorded.after if part == updates - 1 else position,
                          digest=digest_of(batch), completion_counts=counts)


def _as_recorded(recorded: Rollout, again: Rollout) -> tuple[np.ndarray, ...]:
    """Recorded log probabilities of an absent teacher; those of the student for completions that differ."""
    return tuple(
        said if (one.item.id, before.completion) == (other.item.id, after.completion)
        else np.asarray(after.completion.log_probs, np.float32)
        for (one, before), (other, after), said in zip(
            recorded.trained_samples, again.trained_samples, recorded.reference_log_probs, strict=True))


def _counts(recorded: Rollout, again: Rollout) -> dict[str, int]:
    """Number of recorded completions, and of those reproduced with the same log probabilities."""
    before, after = ([(prompt.item.id, sample.completion) for prompt, sample in rollout.all_samples]
                     for rollout in (recorded, again))
    # Not strict: with other completions, dynamic sampling may take another number of groups.
    same = sum(one == other for one, other in zip(before, after, strict=False))
    return {"asked": len(before), "same": same - _count_other_log_probs(recorded, again)}


def _count_other_log_probs(recorded: Rollout, again: Rollout) -> int:
    """Number of trained completions that are the same, with a token whose frozen log probability differs."""
    return sum(
        (recorded_group.item.id, before.completion) == (repeated_group.item.id, after.completion)
        and bool((np.abs(log_probs_again - log_probs_recorded) > MAX_LOG_PROB_DIFFERENCE).any())
        for (recorded_group, before), (repeated_group, after), log_probs_recorded, log_probs_again in zip(
            recorded.trained_samples, again.trained_samples, recorded.reference_log_probs, again.reference_log_probs,
            strict=False))


def with_another_reward(rollout: Rollout, sampler: RolloutSampler) -> Rollout:
    """The rollout with the first reward of the first trained completion increased by 1, and its group's advantages."""
    settings = sampler.reward_settings
    assert settings is not None  # a change of runs with rewards

    def change(group: Group) -> Group:
        values = [dict(sample.rewards) for sample in group.samples]
        values[0][settings.names[0]] += 1.0
        totals = [total(rewards, settings) for rewards in values]
        return replace(group, samples=tuple(
            replace(sample, rewards=rewards, reward=reward, advantage=advantage)
            for sample, rewards, reward, advantage in zip(
                group.samples, values, totals, sampler.algorithm.advantages(totals), strict=True)))

    return _with_first_group(rollout, change)


def with_another_advantage(rollout: Rollout, sampler: RolloutSampler) -> Rollout:
    """The rollout with the advantage of the first trained completion increased by 0.5."""
    del sampler
    return _with_first_group(rollout, lambda group: replace(group, samples=(
        replace(group.samples[0], advantage=group.samples[0].advantage + 0.5), *group.samples[1:])))


def with_another_teacher(rollout: Rollout, sampler: RolloutSampler) -> Rollout:
    """The rollout with the teacher's log probability of the first trained token increased by 0.5."""
    del sampler
    first, *others = rollout.reference_log_probs
    return replace(rollout, reference_log_probs=(first + np.eye(1, len(first), dtype=np.float32)[0] / 2, *others))


def _with_first_group(rollout: Rollout, change: Callable[[Group], Group]) -> Rollout:
    first = next((number for number, group in enumerate(rollout.groups) if group.kept), None)
    if first is None:
        return rollout
    return replace(rollout, groups=tuple(change(group) if number == first else group
                                         for number, group in enumerate(rollout.groups)))


CONTROLS: dict[str, tuple[str, Change]] = {
    "reward": ("one reward flipped", with_another_reward), "advantage": ("one advantage moved", with_another_advantage),
    "teacher": ("one log probability of the teacher moved", with_another_teacher)}
"""Changes of every rollout that a replay must distinguish from the record, by name, with their words."""


def replayed_rollouts(opened: ReopenedRun, seed: int, *, exact: bool,
                      change: Change = lambda rollout, sampler: rollout) -> RolloutSource:
    """The rollouts of a run with prompts and completions of a seed; ``exact`` and ``change`` as in `RolloutSource`."""
    prompts = replace(opened.prompts, seed=seed)
    data = PromptData(resolved=opened, prompts=prompts, devices=opened.row_devices,
                      rewards=reward_settings(opened.loaded) if opened.recipe.rewards else None)
    first = opened.rollout(1)
    if first is None:
        raise RecordError(f"{opened.run.path}: no rollout of step 1")
    player = None if data.environment is None or data.environment.config.is_foreign else EnvironmentProcess(
        data.environment)
    sampler = data.rollout_sampler(opened.engine, RecordedRewards(recorded=first), opened.teacher_log_probs, player)
    return RolloutSource(sampler=sampler, recorded=opened.rollout, exact=exact, change=change)
