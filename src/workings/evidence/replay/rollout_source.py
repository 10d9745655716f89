"""Rollouts of a record drawn again: the same prompts, seeds and weights have to give the same completions."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from workings.data.batches import Position
from workings.engines.base import State
from workings.errors import RecordError
from workings.evidence.replay.steps import StepInputs
from workings.rollouts.rollout import Group, Rollout, Sample, digest_of
from workings.scoring.rewards import CompletionToReward, total
from workings.training.rollout_experience import RolloutSampler

MAX_LOG_PROB_DIFFERENCE = 0.25
"""Nats by which a frozen model may find a token likelier or less likely than it did under other conditions."""
Change = Callable[[Rollout, RolloutSampler], Rollout]


@dataclass(frozen=True, kw_only=True)
class RecordedRewards:
    """Gives a completion that came out as recorded its recorded rewards, and any other one nothing.

    No reward is computed here: level 2 of `verify` does that, and a person's own function is never run from a record.
    """

    recorded: Rollout

    def score(self, samples: Sequence[CompletionToReward]) -> list[dict[str, float]]:
        """Of the next samples in the order in which the record has them."""
        known = {(prompt.item.id, tuple(sample.completion.tokens), sample.completion.stop_token is None):
                 dict(sample.rewards) for prompt, sample in self.recorded.all_samples}
        nothing = dict.fromkeys(self.recorded.groups[0].samples[0].rewards, 0.0)
        return [known.get((sample.item.id, tuple(sample.tokens), sample.truncated), nothing) for sample in samples]


@dataclass(frozen=True, kw_only=True)
class DrawnAgain:
    """Batches of recorded updates, their rollouts drawn again by the weights that learn from them."""

    drawing: RolloutSampler
    recorded: Callable[[int], Rollout | None]
    """The rollout whose first update is this one; None where there is none."""
    exact: bool
    """Whether the update is taken from what was drawn here. Where other bits are allowed it is taken from the record:
    the last bits of a log probability would make another batch of the same completions."""
    change: Change = lambda rollout, drawing: rollout
    """For controls: what is learned from in place of the right rollout."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of an update. Raises `RecordError` where the record has no rollout for it."""
        updates = self.drawing.shape.updates
        part = (step - 1) % updates
        recorded = self.recorded(step - part)
        if recorded is None:
            raise RecordError(f"no rollout of step {step - part}")
        learned, drawn = recorded, None
        # In the middle of a rollout its weights are gone; what it drew stands in the record.
        if part == 0:
            again = replace(self.drawing, rewarder=RecordedRewards(recorded=recorded)).rollout(state, position, step)
            if self.drawing.reference is None and recorded.reference_log_probs:
                again = replace(again, reference_log_probs=_as_recorded(recorded, again))
            drawn = _counted(recorded, again)
            learned = again if self.exact else recorded
        learned = self.change(learned, self.drawing)
        batch = self.drawing.batch(learned, step)
        return StepInputs(batch=batch, after=recorded.after if part == updates - 1 else position,
                          digest=digest_of(batch), drawn=drawn)


def _as_recorded(recorded: Rollout, again: Rollout) -> tuple[np.ndarray, ...]:
    """What an absent teacher said of the completions that came out as recorded; of any other one it teaches nothing."""
    return tuple(
        said if (one.item.id, before.completion) == (other.item.id, after.completion)
        else np.asarray(after.completion.log_probs, np.float32)
        for (one, before), (other, after), said in zip(
            recorded.trained_samples, again.trained_samples, recorded.reference_log_probs, strict=True))


def _counted(recorded: Rollout, again: Rollout) -> dict[str, int]:
    """How many completions were recorded, and how many of them came out the same, to the frozen model as well."""
    before, after = ([(prompt.item.id, sample.completion) for prompt, sample in each.all_samples]
                     for each in (recorded, again))
    # Not strict: where other completions came out, dynamic sampling may have drawn another number of groups.
    same = sum(one == other for one, other in zip(before, after, strict=False))
    return {"asked": len(before), "same": same - _judged_otherwise(recorded, again)}


def _judged_otherwise(recorded: Rollout, again: Rollout) -> int:
    """How many of the learned completions came out the same, and the frozen model finds a token of them otherwise."""
    return sum(
        (one.item.id, before.completion) == (other.item.id, after.completion)
        and bool((np.abs(said - known) > MAX_LOG_PROB_DIFFERENCE).any())
        for (one, before), (other, after), known, said in zip(
            recorded.trained_samples, again.trained_samples, recorded.reference_log_probs, again.reference_log_probs,
            strict=False))


def with_another_reward(rollout: Rollout, drawing: RolloutSampler) -> Rollout:
    """A rollout in which the first reward of the first learned completion was one more, and its group judged by it."""
    return _with_first_group(rollout, lambda group: _rewarded(group, drawing))


def with_another_advantage(rollout: Rollout, drawing: RolloutSampler) -> Rollout:
    """A rollout in which the advantage of the first learned completion was a half more."""
    del drawing
    return _with_first_group(rollout, lambda group: replace(group, samples=(
        replace(group.samples[0], advantage=group.samples[0].advantage + 0.5), *group.samples[1:])))


def with_another_teacher(rollout: Rollout, drawing: RolloutSampler) -> Rollout:
    """A rollout of which the teacher found the first learned token half a nat likelier."""
    del drawing
    first, *others = rollout.reference_log_probs
    # One row of the identity: 1 at the first token and 0 at all others.
    return replace(rollout, reference_log_probs=(first + np.eye(1, len(first), dtype=np.float32)[0] / 2, *others))


def _with_first_group(rollout: Rollout, change: Callable[[Group], Group]) -> Rollout:
    first = next((number for number, group in enumerate(rollout.groups) if group.kept), None)
    if first is None:
        return rollout
    return replace(rollout, groups=tuple(change(group) if number == first else group
                                         for number, group in enumerate(rollout.groups)))


def _rewarded(group: Group, drawing: RolloutSampler) -> Group:
    assert drawing.reward_settings is not None  # a change of runs with rewards
    name = drawing.reward_settings.names[0]
    values = [dict(sample.rewards) for sample in group.samples]
    values[0][name] += 1.0
    rewards = [total(each, drawing.reward_settings) for each in values]
    samples: list[Sample] = [
        replace(sample, rewards=each, reward=reward, advantage=advantage) for sample, each, reward, advantage in
        zip(group.samples, values, rewards, drawing.algorithm.advantages(rewards), strict=True)]
    return replace(group, samples=tuple(samples))
