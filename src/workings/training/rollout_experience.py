"""Batches that the model draws itself: prompts, completions, and what they are worth, one rollout after the other."""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import partial
from typing import Protocol, runtime_checkable

import numpy as np

from workings.config.algorithms import DrawingAlgorithm
from workings.data.batches import Position
from workings.engines.base import Completion, LikelihoodEngine, SamplingEngine, State, StepResult
from workings.errors import RequestError
from workings.models.batch import Batch
from workings.models.tokenizer import Tokenizer
from workings.rollouts import arithmetic
from workings.rollouts.prompts import Place, Prompt, PromptSet
from workings.rollouts.rollout import (
    Group,
    Rollout,
    RolloutShape,
    Sample,
    batch_of,
    choose,
    digest_of,
    learned_span,
    sample_seed,
    to_reward,
)
from workings.scoring.rewards import CompletionToReward, RewardSettings, total
from workings.training.experience import PreparedBatch
from workings.training.health import Health


@runtime_checkable
class RolloutEngine(SamplingEngine, LikelihoodEngine, Protocol):
    """What an engine offers that draws completions and says how likely it finds them."""


class Rewarder(Protocol):
    """Gives completions their rewards."""

    def score(self, samples: Sequence[CompletionToReward]) -> list[dict[str, float]]:
        """The value of every reward of each completion, without its weight. Raises `TrainingFailed`."""
        ...


@dataclass(frozen=True, kw_only=True)
class Drawing:
    """How rollouts are drawn: a pure function of weights, step and position."""

    engine: RolloutEngine
    prompts: PromptSet
    algorithm: DrawingAlgorithm
    shape: RolloutShape
    rewarder: Rewarder | None = None
    """None where the algorithm has no rewards; ``reward_settings`` likewise."""
    reward_settings: RewardSettings | None = None
    tokenizer: Tokenizer
    stop_ids: Sequence[int]
    seed: int
    reference: Callable[[State, Batch], np.ndarray] | None = None
    """What a frozen model (that which training began with, or a teacher) says of a batch's targets, ``[A, B, S]``,
    given the state that is trained; None where the algorithm asks none."""

    @property
    def groups(self) -> int:
        """Prompts that the updates of one rollout learn from."""
        return self.shape.completions // self.algorithm.group

    @property
    def reward_names(self) -> tuple[str, ...]:
        """Names of the rewards in their order."""
        return () if self.reward_settings is None else self.reward_settings.names

    def rollout(self, state: State, position: Position, step: int) -> Rollout:
        """Draw and judge the completions that update ``step`` and those after it learn from."""
        groups: list[Group] = []
        after, wanted = position, self.groups
        dynamic = self.algorithm.most_draws > 1
        for _ in range(self.algorithm.most_draws):
            # As many again each time: programs have fixed shapes, and another number of prompts would be another one.
            places, after = self.prompts.take(after, wanted)
            groups += self.groups_of(state, places, step)
            kept = choose([group.has_spread for group in groups], wanted, dynamic=dynamic)
            if sum(kept) == wanted:
                break
        rollout = Rollout(step=step, position=position, after=after, groups=tuple(
            replace(group, kept=keep) for group, keep in zip(groups, kept, strict=True)))
        if self.reference is None:
            return rollout
        return replace(rollout, reference_log_probs=self.log_probs(partial(self.reference, state), rollout))

    def log_probs(self, ask: Callable[[Batch], np.ndarray], rollout: Rollout) -> tuple[np.ndarray, ...]:
        """Of every learned sample the log probabilities of its tokens, as a model says them: float32.

        Args:
            ask: what the model says of a batch's targets, ``[A, B, S]``.
            rollout: what was drawn.
        """
        said: list[np.ndarray] = []
        for part in range(self.shape.updates):
            # In the very batches of the updates, so that no program of another shape is compiled.
            rows = ask(self.batch(rollout, rollout.step + part))
            size = self.shape.rows_per_update
            said += cut(rollout.learned[part * size:(part + 1) * size], rows)
        return tuple(said)

    def groups_of(self, state: State, places: Sequence[Place], step: int) -> list[Group]:
        """The groups of some prompts, rewarded, as update ``step`` has them drawn."""
        size = self.algorithm.group
        # By what a sample is for and not by its place: another number of devices or draws changes none of them.
        seeds = [sample_seed(self.seed, step, place.epoch, place.prompt.item.id, number)
                 for place in places for number in range(size)]
        prompts = [place.prompt for place in places for _ in range(size)]
        completions = self.engine.sample(
            state, [prompt.tokens for prompt in prompts], max_new_tokens=self.algorithm.max_new_tokens,
            stop_ids=self.stop_ids, temperature=self.algorithm.drawn_at, seeds=seeds)
        values, rewards = self._rewards(prompts, completions)
        groups = []
        for number, place in enumerate(places):
            own = slice(number * size, (number + 1) * size)
            samples = [Sample(seed=seed, completion=completion, rewards=each, reward=reward, advantage=advantage)
                       for seed, completion, each, reward, advantage in zip(
                           seeds[own], completions[own], values[own], rewards[own],
                           self.algorithm.advantages(rewards[own]), strict=True)]
            groups.append(Group(prompt=place.prompt, epoch=place.epoch, samples=tuple(samples)))
        return groups

    def _rewards(self, prompts: Sequence[Prompt], completions: Sequence[Completion]
                 ) -> tuple[list[dict[str, float]], list[float]]:
        """Of each completion the value of every reward, and their weighted sum; nothing and 0 without rewards."""
        if self.rewarder is None or self.reward_settings is None:
            return [{} for _ in prompts], [0.0] * len(prompts)
        values = self.rewarder.score([to_reward(prompt, completion, self.tokenizer)
                                      for prompt, completion in zip(prompts, completions, strict=True)])
        return values, [total(each, self.reward_settings) for each in values]

    def batch(self, rollout: Rollout, step: int) -> Batch:
        """What update ``step`` learns from."""
        return batch_of(rollout, step - rollout.step, self.shape, self.algorithm)


class RolloutExperience:
    """Batches from completions that the model draws before the update that learns from them."""

    def __init__(self, drawing: Drawing, *, recorded: Callable[[int], Rollout | None],
                 record: Callable[[Rollout], None], health: Health) -> None:
        """Draw nothing yet.

        Args:
            drawing: how.
            recorded: the rollout whose first update is this one, as an earlier attempt recorded it; None for none.
            record: keeps a rollout.
            health: stops a run that cannot be learning.
        """
        self._drawing = drawing
        self._recorded = recorded
        self._record = record
        self._health = health
        self._current: Rollout | None = None

    def start(self, state: State, step: int) -> None:
        """Nothing: everything is found out when it is drawn."""
        del state, step

    def begin(self, position: Position, thread: Executor) -> None:
        """Nothing: what is drawn depends on the update before."""

    def take(self, state: State, position: Position, step: int) -> PreparedBatch:
        """The batch of an update; draws first where it is the first one that learns from a rollout.

        Raises:
            RequestError: an earlier attempt drew the rollout in the middle of which this one goes on, and it is gone.
            TrainingFailed: a reward is none, or no group can be learned from.
        """
        # Rollouts begin at updates 1, 1 + n, 1 + 2 n, …: the number alone says where a resumed run stands in one.
        part = (step - 1) % self._drawing.shape.updates
        metrics: dict[str, float] = {}
        rollout = self._current
        if part == 0:
            started = time.perf_counter()
            rollout = self._drawing.rollout(state, position, step)
            metrics = arithmetic.rollout_metrics(rollout, self._drawing.reward_names)
            # Before more is computed: a run that cannot be learning ends here.
            self._health.drawn(rollout)
            if self._drawing.shape.updates > 1:
                # Later updates see other weights than those that drew; what these say is asked before the first.
                rollout = replace(rollout, trainer_log_probs=self._drawing.log_probs(
                    partial(self._drawing.engine.log_probs, state), rollout))
            metrics["drawing_seconds"] = time.perf_counter() - started
        elif rollout is None:
            # Resumed in the middle of a rollout. Drawing it again would give other texts: the weights have moved since.
            rollout = self._recorded(step - part)
        if rollout is None:
            raise RequestError(f"update {step}, which learns from the rollout of update {step - part}",
                               "that rollout in the record", "resume from an earlier checkpoint")
        self._current = rollout
        batch = self._drawing.batch(rollout, step)
        last = part == self._drawing.shape.updates - 1
        # Up to its last update the position stays where the rollout began, so that a checkpoint between finds it again.
        return PreparedBatch(batch=batch, after=rollout.after if last else position, digest=digest_of(batch),
                             tokens=batch.real_tokens, supervised_tokens=batch.supervised_tokens, metrics=metrics)

    def finish(self, step: int, prepared: PreparedBatch, result: StepResult) -> dict[str, float]:
        """Record the rollout when its first update was taken, and look whether the run can be learning.

        Raises:
            TrainingFailed: it cannot.
        """
        rollout = self._current
        assert rollout is not None  # `take` has made it
        numbers: dict[str, float] = {}
        if rollout.step == step:
            if self._drawing.shape.updates == 1:
                # The update says them on its way, by the weights before it, so they cost no pass of their own.
                assert result.log_probs is not None  # of every objective but cross entropy
                rollout = replace(rollout, trainer_log_probs=tuple(cut(rollout.learned, result.log_probs)))
            numbers = arithmetic.mismatch(rollout)
        self._health.learned(step, numbers, result)
        if rollout.step == step:
            self._record(rollout)
        return numbers


def cut(learned: Sequence[tuple[Prompt, Sample]], rows: np.ndarray) -> list[np.ndarray]:
    """Of every learned sample the log probabilities of its tokens, from ``[A, B, S]``."""
    flat = rows.reshape(-1, rows.shape[-1]).astype(np.float32)
    return [flat[number, learned_span(prompt, sample)] for number, (prompt, sample) in enumerate(learned)]
