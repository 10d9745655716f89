"""Batches of completions that the model samples itself: prompts, completions, rewards, one rollout after another."""

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from typing import Any, Protocol

import numpy as np

from workings.data.batches import Position
from workings.engines.base import Completion, LikelihoodEngine, Sampler, State, StepResult, TaggedSampler
from workings.environments.process import EnvironmentProcess
from workings.errors import RequestError, TrainingFailed
from workings.models.batch import Batch
from workings.models.chat import ChatTemplate
from workings.record.metrics import EQUAL, has_nothing_to_learn
from workings.rollouts.episodes import EpisodeRules, play
from workings.rollouts.prompts import Prompt, PromptSet, PromptTurn
from workings.rollouts.rollout import (
    Group,
    Rollout,
    Sample,
    mismatch,
    rollout_metrics,
    sample_seed,
    select_groups,
    to_reward,
)
from workings.scoring.rewards import CompletionToReward, RewardSettings, total
from workings.ways.parts.experience import Experience, PreparedBatch
from workings.ways.parts.rollout_batch import RolloutShape, batch_of, completion_span, digest_of
from workings.ways.parts.rollout_way import RolloutWay


class Rewarder(Protocol):
    """Gives completions their rewards."""

    @property
    def replies(self) -> list[str]:
        """A judge's reply to each completion of the last call; empty without a judge."""
        ...

    def score(self, samples: Sequence[CompletionToReward]) -> list[dict[str, float]]:
        """The value of every reward of each completion, without its weight. Raises `TrainingFailed`."""
        ...


@dataclass(frozen=True, kw_only=True)
class RolloutSampler:
    """Samples rollouts: a pure function of weights, step and position."""

    sampler: Sampler
    """Writes the completions: the engine itself, or another program."""
    engine: LikelihoodEngine
    """Computes log probabilities with the weights that are trained."""
    prompts: PromptSet
    algorithm: RolloutWay
    shape: RolloutShape
    rewarder: Rewarder | None = None
    """None if the algorithm has no rewards; ``reward_settings`` likewise."""
    reward_settings: RewardSettings | None = None
    template: ChatTemplate
    player: EnvironmentProcess | None = None
    """Plays the environment; None without one, and ``rules`` likewise."""
    rules: EpisodeRules | None = None
    seed: int
    ahead: bool = False
    """Whether a rollout is sampled during the last update of the one before, by a sampler that is another program."""
    reference: Callable[[State, Batch], np.ndarray] | None = None
    """Log probabilities ``[A, B, S]`` of a batch's targets under a frozen model (the first weights, or a teacher),
    given the state that is trained; None if the algorithm has no reference."""

    @property
    def groups(self) -> int:
        """Prompts whose completions the updates of one rollout are trained on."""
        return self.shape.completions // self.algorithm.group

    def with_reference(self, state: State, rollout: Rollout) -> Rollout:
        """A rollout with the log probabilities under the frozen model, if there is one."""
        if self.reference is None:
            return rollout
        return replace(rollout, reference_log_probs=self.log_probs(partial(self.reference, state), rollout))

    def sampled(self, state: State | None, position: Position, step: int) -> Rollout:
        """Samples and rewards a rollout that begins at ``step``; ``state``: None if the sampler loaded it earlier."""
        groups: list[Group] = []
        after, wanted = position, self.groups
        dynamic = self.algorithm.max_sampling_rounds > 1
        for _ in range(self.algorithm.max_sampling_rounds):
            # The same number of prompts in each round, because another number would be another compiled program.
            turns, after = self.prompts.take(after, wanted)
            groups += self.sample_groups(state, turns, step)
            selected = select_groups([group.has_spread for group in groups], wanted, dynamic=dynamic)
            if sum(selected) == wanted:
                break
        tag: dict[str, str] = {}
        if isinstance(self.sampler, TaggedSampler):
            tag = self.sampler.tag | {"behind": "1" if state is None else "0"}
        return Rollout(step=step, position=position, after=after, sampler=tag, groups=tuple(
            replace(group, kept=is_kept) for group, is_kept in zip(groups, selected, strict=True)))

    def log_probs(self, model: Callable[[Batch], np.ndarray], rollout: Rollout) -> tuple[np.ndarray, ...]:
        """Log probabilities, float32, of the tokens of every trained sample; ``model`` computes those of a batch."""
        log_probs: list[np.ndarray] = []
        for update in range(self.shape.updates):
            # In the batches of the updates, so that no program of another shape is compiled.
            log_probs_ABS = model(self.batch(rollout, rollout.step + update))
            log_probs += split_by_sample(rollout.trained_samples[self.shape.samples_of(update)], log_probs_ABS)
        return tuple(log_probs)

    def sample_groups(self, state: State | None, turns: Sequence[PromptTurn], step: int) -> list[Group]:
        """Samples and rewards the groups of some prompts for a rollout whose first update is ``step``."""
        size = self.algorithm.group
        # A seed does not depend on the place in the batch, so the number of devices or rounds does not change it.
        seeds = [sample_seed(self.seed, step, turn.epoch, turn.prompt.item.id, number)
                 for turn in turns for number in range(size)]
        # Copies of a prompt are neighbors, so that an engine reads it once.
        prompts = [turn.prompt for turn in turns for _ in range(size)]
        samples = iter(self._rewarded(prompts, self._sampled(state, prompts, seeds)))
        groups = [Group(prompt=turn.prompt, epoch=turn.epoch, samples=tuple(islice(samples, size))) for turn in turns]
        return [group.with_advantages(self.algorithm.advantages) for group in groups]

    def _sampled(self, state: State | None, prompts: Sequence[Prompt], seeds: Sequence[int]) -> list[Sample]:
        """A completion of each prompt, or an episode, without rewards."""
        def write(contexts: Sequence[Sequence[int]], seeds: Sequence[int]) -> Sequence[Completion]:
            return self.sampler.sample(
                state, contexts, max_new_tokens=self.algorithm.max_new_tokens, stop_ids=self.template.stop_ids,
                temperature=self.algorithm.objective.temperature, seeds=seeds)

        if self.player is None or self.rules is None:
            completions = write([prompt.tokens for prompt in prompts], seeds)
            return [Sample(seed=seed, completion=completion)
                    for seed, completion in zip(seeds, completions, strict=True)]
        return play(prompts, seeds, player=self.player, template=self.template, rules=self.rules, write=write)

    def _rewarded(self, prompts: Sequence[Prompt], samples: Sequence[Sample]) -> list[Sample]:
        """The samples with the values of every reward and their weighted sums; unchanged in runs without rewards."""
        if self.rewarder is None or self.reward_settings is None:
            return [*samples]
        values = self.rewarder.score([to_reward(prompt, sample, self.template.tokenizer)
                                      for prompt, sample in zip(prompts, samples, strict=True)])
        replies = self.rewarder.replies or [""] * len(samples)
        return [replace(sample, rewards=rewards, reward=total(rewards, self.reward_settings), judge_reply=reply)
                for sample, rewards, reply in zip(samples, values, replies, strict=True)]

    def batch(self, rollout: Rollout, step: int) -> Batch:
        """The batch of update ``step``, one of those that are trained on the rollout."""
        return batch_of(rollout, step - rollout.step, self.shape, self.algorithm)


@dataclass
class StallDetector:
    """Stops a run after too many rollouts or updates in a row from which nothing can be learned."""

    algorithm: RolloutWay
    equal_reward_rollouts: int = 0
    """Rollouts in a row in which the rewards of every group were equal."""
    truncated_rollouts: int = 0
    """Rollouts in a row in which every completion was cut off."""
    unchanged_updates: int = 0
    """Updates in a row that changed no weight."""
    rewards_differed: bool = False
    """Whether they did in any group of any rollout so far."""
    nothing_to_learn: bool = False
    """Every completion of the last rollout is correct and has the same reward, after earlier rewards that differed.
    Such a rollout does not count here: after ``patience`` of them the run is complete (`workings.record.metrics`)."""

    @classmethod
    def from_lines(cls, algorithm: RolloutWay, lines: Sequence[Mapping[str, Any]]) -> "StallDetector":
        """The detector after these metrics lines."""
        detector = cls(algorithm)
        for line in lines:
            # Only the line of a rollout's first update has this key, and only in runs with rewards.
            if EQUAL in line:
                detector._count_rollout(line)
            detector._count_update(line["share_of_weights_changed"] == 0)
        return detector

    def check_rollout(self, rollout: Rollout, metrics: Mapping[str, float]) -> None:
        """Raises `TrainingFailed` if too many rollouts in a row had equal rewards or no completion that ended."""
        if self.algorithm.teacher_keys is not None:
            return  # a teacher judges every token, also those of completions that were cut off
        samples = [sample for _, sample in rollout.all_samples]
        self._count_rollout(metrics)
        patience = self.algorithm.patience
        # First, because completions that are cut off may be the cause of equal rewards.
        if self.truncated_rollouts >= patience:
            cause = ("no episode ended within environment.turns and data.max_length" if samples[0].turns else
                     f"every completion was cut off at algorithm.max_new_tokens ({self.algorithm.max_new_tokens}); the "
                     "model does not end its answers")
            raise TrainingFailed(f"not learning: in {self.truncated_rollouts} rollouts in a row {cause}")
        if self.equal_reward_rollouts >= patience:
            values = sorted({sample.reward for sample in samples})
            raise TrainingFailed(
                f"not learning: in {self.equal_reward_rollouts} rollouts in a row all completions of each prompt had "
                f"the same reward (the last ones: {', '.join(f'{value:g}' for value in values[:3])}); there is nothing "
                "to compare: other prompts, a larger algorithm.group, or a finer reward")
        if not rollout.trained_samples:
            why = "; every completion is correct, so nothing is left to learn" if self.nothing_to_learn else ""
            raise TrainingFailed(
                f"not learning: of {len(rollout.groups)} groups that were sampled for update {rollout.step} none had "
                f"rewards that differ (algorithm.max_resamples){why}")

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
        # First, because samples of another model explain everything else that goes wrong.
        limit = self.algorithm.max_mismatch
        if mismatch.get("mismatch", 0.0) > limit:
            raise TrainingFailed(
                f"not learning from its own samples: at update {step} the sampler and the trained model disagree by "
                f"{mismatch['mismatch']:.3g} nats per token on the sampled tokens; rounding explains at most {limit:g} "
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


class RolloutExperience(Experience):
    """Batches of completions that the model samples before the update that is trained on them."""

    def __init__(self, sampler: RolloutSampler, *, load_rollout: Callable[[int], Rollout | None],
                 save_rollout: Callable[[Rollout], None], stall_detector: StallDetector, last_step: int) -> None:
        """``load_rollout`` loads the rollout that began at an update, if an earlier attempt has saved it."""
        self._sampler, self._stall_detector, self._last_step = sampler, stall_detector, last_step
        self._load_rollout, self._save_rollout = load_rollout, save_rollout
        self._current: Rollout | None = None
        self._ahead: Future[Rollout] | None = None
        # First update of the rollout that `prefetch` samples ahead; 0: none.
        self._step_ahead = 0

    def prefetch(self, position: Position, thread: Executor) -> None:
        """Starts to sample the next rollout, if the recipe asks for it and the coming update is this one's last."""
        if self._step_ahead:
            self._ahead = thread.submit(self._sampler.sampled, None, position, self._step_ahead)

    def next_batch(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch of an update; samples first if it is the first one that is trained on a rollout.

        Raises `RequestError` if an earlier attempt stopped within a rollout that is gone, and `TrainingFailed`.
        """
        # With 3 updates from each rollout, update 6 is number 2 (from 0) of the rollout that began at update 4.
        number = (step - 1) % self._sampler.shape.updates
        metrics: dict[str, float] = {}
        if number == 0:
            self._current, metrics = self._new_rollout(state, position, step)
        elif self._current is None:
            # Resumed in the middle of a rollout: the weights that sampled it are gone.
            self._current = self._load_rollout(step - number)
        rollout = self._current
        if rollout is None:
            raise RequestError(f"update {step} needs the rollout of update {step - number}",
                               "that rollout in the record", "resume from an earlier checkpoint")
        batch = self._sampler.batch(rollout, step)
        self._stall_detector.check_batch(rollout, step, batch)
        is_last = number == self._sampler.shape.updates - 1
        samples_ahead = self._sampler.ahead and is_last and step < self._last_step
        self._step_ahead = step + 1 if samples_ahead else 0
        if samples_ahead and isinstance(self._sampler.sampler, TaggedSampler):
            self._sampler.sampler.load(state)  # now, because the update consumes the state
        # Until its last update the position stays at the rollout's beginning, where a resumed run finds it.
        return PreparedBatch(batch=batch, after=rollout.after if is_last else position, digest=digest_of(batch),
                             metrics=metrics)

    def _new_rollout(self, state: State, position: Position, step: int) -> tuple[Rollout, dict[str, float]]:
        """A rollout whose first update is ``step``, sampled now or ahead, and its metrics."""
        started = time.perf_counter()
        sampler = self._sampler
        if self._ahead is None:
            sampled = sampler.sampled(state, position, step)
        else:
            sampled, self._ahead = self._ahead.result(), None
        rollout = sampler.with_reference(state, sampled)
        metrics = rollout_metrics(rollout, () if sampler.reward_settings is None else sampler.reward_settings.names)
        self._stall_detector.check_rollout(rollout, metrics)
        if sampler.shape.updates > 1:
            # Now, because the weights differ from the sampler's after the first update.
            rollout = replace(rollout, trainer_log_probs=sampler.log_probs(
                partial(sampler.engine.log_probs, state), rollout))
        return rollout, metrics | {"drawing_seconds": time.perf_counter() - started}

    def after_step(self, step: int, prepared: PreparedBatch, result: StepResult) -> dict[str, float]:
        """Saves the rollout after its first update. Raises `TrainingFailed` if the run cannot be learning."""
        rollout = self._current
        assert rollout is not None  # set by `next_batch`
        metrics: dict[str, float] = {}
        if rollout.step == step:
            if self._sampler.shape.updates == 1:
                # The update computes them anyway, with the weights before it, so they cost no further pass.
                assert result.log_probs is not None  # every objective but cross entropy returns them
                rollout = replace(rollout, trainer_log_probs=tuple(
                    split_by_sample(rollout.trained_samples, result.log_probs)))
            metrics = mismatch(rollout)
        self._stall_detector.check_update(step, metrics, result)
        if rollout.step == step:
            self._save_rollout(rollout)
        return metrics


def split_by_sample(samples: Sequence[tuple[Prompt, Sample]], log_probs_ABS: np.ndarray) -> list[np.ndarray]:
    """Log probabilities of the tokens of each sample, from those of a batch ``[A, B, S]`` with a sample a row."""
    rows = log_probs_ABS.reshape(-1, log_probs_ABS.shape[-1]).astype(np.float32)
    return [rows[number, completion_span(prompt, sample)] for number, (prompt, sample) in enumerate(samples)]
