"""The batches of a sealed run's steps, made again from its record; and wrong ones, with which results must differ.

Shape suffixes: A accumulation, B rows, S positions.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, cast

import numpy as np

from workings.data.batches import Batches, Position
from workings.data.pair_rows import LogProbs, read_log_prob_lines
from workings.data.top_tokens import TeacherTopTokens, TopTokenFiles, TopTokensOfRow
from workings.engines.base import Completion, LikelihoodEngine, State
from workings.environments.process import EnvironmentProcess
from workings.errors import RecordError
from workings.models.batch import Batch
from workings.objectives.policy_gradient import REFERENCE
from workings.objectives.top_tokens import TopTokens
from workings.record import jsonl
from workings.record.layout import REFERENCE_LOG_PROBS, top_tokens_file
from workings.record.storage import read_plain
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import Group, Rollout, Sample
from workings.scoring.rewards import CompletionToReward, total
from workings.ways.parts import row_data
from workings.ways.parts.experience import AddSignals
from workings.ways.parts.replay_source import BatchSource, ReopenedRun, StepInputs
from workings.ways.parts.rollout_batch import digest_of
from workings.ways.parts.rollout_experience import RolloutSampler
from workings.ways.parts.teacher import Teacher
from workings.ways.parts.training_data import PromptData, reward_settings


@dataclass(frozen=True, kw_only=True)
class RowSource:
    """Batches of rows: they follow from the position in the data and the rows' signals."""

    batches: Batches
    add: AddSignals
    recorded: Mapping[str, Any] = field(default_factory=dict)
    """Recorded signals by row id: log probabilities of the reference, or top tokens of the teacher."""
    compute: Callable[[State, Position], Mapping[str, Any]] | None = None
    """Computes the signals of the rows of a batch again; None: the recorded ones are used."""
    change: Callable[[Batch], Batch] = lambda batch: batch
    """For a `Control`: makes the batch to use in place of the correct one."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of a step. Raises `RecordError` for a row without a recorded signal."""
        batch, after = self.batches.at(position)
        digest = self.batches.digest(batch)
        signals = self.recorded
        # The run computed them in the batches of its first epoch. In another batch, last bits may differ.
        if self.compute is not None and position.epoch == 0:
            signals = {**signals, **self.compute(state, position)}
        with_signals = self.add(batch, self.batches.row_ids(position), signals)
        return StepInputs(batch=self.change(with_signals), after=after, digest=digest)


def with_a_pair_swapped(batch: Batch) -> Batch:
    """The batch with the two rows of the first pair swapped."""
    order = np.arange(batch.tokens.shape[1])
    order[:2] = 1, 0
    # Only in the first micro batch. Empty rows fill up the end of a batch, so the first pair is a real one.
    arrays = {name: np.concatenate([x_ABS[:1, order], x_ABS[1:]]) for name, x_ABS in batch.arrays.items()}
    positions = batch.loss_positions
    return replace(
        Batch.of(arrays, batch.divided_by),
        loss_positions=None if positions is None else np.concatenate([positions[:1, order], positions[1:]]))


def with_another_reference(batch: Batch) -> Batch:
    """The batch with the reference log probability of the first row increased by 0.5."""
    signal_ABS = batch.signals[REFERENCE].copy()
    signal_ABS[0, 0, batch.loss_mask[0, 0].argmax()] += 0.5
    return replace(batch, signals={**batch.signals, REFERENCE: signal_ABS})


def with_another_top_token(batch: Batch) -> Batch:
    """The batch with half the probability of the teacher's most likely token at the first supervised position."""
    name = next(name for name in sorted(batch.signals) if name.startswith("teacher_log_prob_"))
    signal = batch.signals[name].copy()
    signal.reshape(-1)[batch.loss_mask.reshape(-1).argmax()] -= 0.7  # about the logarithm of 2
    return replace(batch, signals={**batch.signals, name: signal})


def _replayed_pairs(opened: ReopenedRun, data: row_data.ReferencedPairData, *, exact: bool) -> RowSource:
    """Preference pairs with their reference log probabilities: recorded ones or, for an exact replay, new ones."""
    recorded = read_log_prob_lines(jsonl.read(opened.run.path / REFERENCE_LOG_PROBS)[0])
    # Data in the order of another seed may begin with rows that a short run never reached: any value will do.
    values = {**dict.fromkeys(data.rows.ids, 0.0), **recorded}

    def compute(state: State, position: Position) -> LogProbs:
        engine = opened.engine
        reference = opened.first_weights if opened.recipe.method.trains_all_weights else data.reference(engine, state)
        assert isinstance(engine, LikelihoodEngine)  # the run was trained by one
        return row_data.log_probs_by_row(engine, reference, data.batches, position)

    return RowSource(batches=data.batches, add=data.add_signals, recorded=values, compute=compute if exact else None)


def _replayed_top_tokens(opened: ReopenedRun, objective: TopTokens, batches: Batches) -> RowSource:
    """Traces with the teacher's top tokens: computed again if the teacher can be opened, else the recorded ones."""
    source = RowSource(batches=batches, recorded=_recorded_top_tokens(opened, objective.top_k),
                       add=partial(row_data.with_top_tokens, objective=objective))
    if not isinstance(opened.teacher, Teacher):
        return source
    teacher = opened.teacher.open_for_tokens(opened.engine, opened, objective.top_k)
    return replace(source, compute=lambda state, position: row_data.teacher_top_tokens_by_row(
        teacher, batches, position))


def _recorded_top_tokens(opened: ReopenedRun, count: int) -> TeacherTopTokens:
    """The teacher's recorded top tokens by row id; made-up ones for rows that only data of another seed reach."""
    top_tokens: dict[str, TopTokensOfRow] = {}
    # The order of the run's own seed decides which rows share a file.
    run_data = row_data.TraceData(recipe=opened.recipe, rows=opened.rows, devices=opened.row_devices)
    positions_by_row = run_data.rows.learned_positions
    files = TopTokenFiles(batches=run_data.batches, steps=run_data.steps, counts=positions_by_row, count=count)
    for number, part in enumerate(files.parts):
        top_tokens |= files.read(read_plain(opened.run.path / top_tokens_file(number)), part)
    for row_id, positions in positions_by_row.items():
        if row_id not in top_tokens:
            # Together the tokens have half of the probability, in equal parts: 1 / (2 * count) each.
            log_probs = np.full((positions, count), -np.log(2 * count))
            top_tokens[row_id] = TopTokensOfRow(np.zeros((positions, count), np.int32), log_probs)
    return top_tokens


MAX_LOG_PROB_DIFFERENCE = 0.25
"""Largest difference, in nats, between a token's recorded and its repeated log probability under a frozen model."""


@dataclass(frozen=True, kw_only=True)
class RecordedRewards:
    """Gives each completion of the record its recorded rewards, and any other completion zeros.

    No reward is computed here: level 2 of `verify` does that, and a user's function is never run from a record.
    """

    recorded: Rollout
    replies: list[str] = field(default_factory=list)
    """Empty: a judge's replies are in no batch."""

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
    """Reads the rollout whose first update is this step; None without one."""
    exact: bool
    """Whether an update uses the completions that are sampled here, not the recorded ones."""
    change: Callable[[Rollout, RolloutSampler], Rollout] = lambda rollout, sampler: rollout
    """For a `Control`: makes the rollout to use in place of the correct one."""

    def take(self, state: State, position: Position, step: int) -> StepInputs:
        """The batch of an update. Raises `RecordError` where the record has no rollout for it."""
        updates = self.sampler.shape.updates
        # With 3 updates from each rollout, step 6 is update 2 (from 0) of the rollout that began at step 4.
        update = (step - 1) % updates
        recorded = self.recorded(step - update)
        if recorded is None:
            raise RecordError(f"no rollout of step {step - update}")
        repeated = self._repeated(recorded, state, position, step) if update == 0 else None
        used = recorded if repeated is None or not self.exact else repeated
        batch = self.sampler.batch(self.change(used, self.sampler), step)
        counts = None if repeated is None else _counts(recorded, repeated)
        return StepInputs(batch=batch, after=recorded.after if update == updates - 1 else position,
                          digest=digest_of(batch), completion_counts=counts)

    def _repeated(self, recorded: Rollout, state: State, position: Position, step: int) -> Rollout | None:
        """The rollout of ``step``, sampled again; None if another program sampled it, or its environment cannot run."""
        lacks_environment = self.sampler.rules is not None and self.sampler.player is None
        if recorded.sampler or lacks_environment:
            return None
        sampler = replace(self.sampler, rewarder=RecordedRewards(recorded=recorded))
        repeated = sampler.with_reference(state, sampler.sampled(state, position, step))
        if self.sampler.reference is None and recorded.reference_log_probs:
            return replace(repeated, reference_log_probs=_recorded_log_probs(recorded, repeated))
        return repeated


def _completions(samples: Sequence[tuple[Prompt, Sample]]) -> list[tuple[str, Completion]]:
    """What two rollouts are compared by: for each sample, the id of its prompt and what was written."""
    return [(prompt.item.id, sample.completion) for prompt, sample in samples]


def _recorded_log_probs(recorded: Rollout, repeated: Rollout) -> tuple[np.ndarray, ...]:
    """An absent teacher's recorded log probabilities; those of the student for completions that the record lacks."""
    before, after = _completions(recorded.trained_samples), _completions(repeated.trained_samples)
    return tuple(log_probs if old == new else np.asarray(new[1].log_probs, np.float32)
                 for old, new, log_probs in zip(before, after, recorded.reference_log_probs, strict=True))


def _counts(recorded: Rollout, repeated: Rollout) -> dict[str, int]:
    """`asked`: recorded completions; `same`: those that were reproduced, with the same log probabilities."""
    # Not strict: with other completions, dynamic sampling may take another number of groups.
    same_tokens = sum(old == new for old, new in zip(
        _completions(recorded.all_samples), _completions(repeated.all_samples), strict=False))
    # The same tokens, with another log probability under the frozen model.
    other_log_probs = sum(
        old == new and bool((np.abs(new_log_probs - old_log_probs) > MAX_LOG_PROB_DIFFERENCE).any())
        for old, new, old_log_probs, new_log_probs in zip(
            _completions(recorded.trained_samples), _completions(repeated.trained_samples),
            recorded.reference_log_probs, repeated.reference_log_probs, strict=False))
    return {"asked": len(recorded.all_samples), "same": same_tokens - other_log_probs}


def with_another_reward(rollout: Rollout, sampler: RolloutSampler) -> Rollout:
    """The rollout with the first reward of the first trained completion increased by 1, and its group's advantages."""
    settings = sampler.reward_settings
    assert settings is not None  # a change of runs with rewards

    def change(group: Group) -> Group:
        first, *others = group.samples
        rewards = {**first.rewards, settings.names[0]: first.rewards[settings.names[0]] + 1.0}
        changed = replace(first, rewards=rewards, reward=total(rewards, settings))
        return replace(group, samples=(changed, *others)).with_advantages(sampler.algorithm.advantages)

    return _with_first_group(rollout, change)


def with_another_advantage(rollout: Rollout, sampler: RolloutSampler) -> Rollout:
    """The rollout with the advantage of the first trained completion increased by 0.5."""
    def change(group: Group) -> Group:
        first, *others = group.samples
        return replace(group, samples=(replace(first, advantage=first.advantage + 0.5), *others))

    return _with_first_group(rollout, change)


def with_another_teacher(rollout: Rollout, sampler: RolloutSampler) -> Rollout:
    """The rollout with the teacher's log probability of the first trained token increased by 0.5."""
    first, *others = rollout.reference_log_probs
    return replace(rollout, reference_log_probs=(first + np.eye(1, len(first), dtype=np.float32)[0] / 2, *others))


def _with_first_group(rollout: Rollout, change: Callable[[Group], Group]) -> Rollout:
    """The rollout with its first trained group changed."""
    first = next((number for number, group in enumerate(rollout.groups) if group.kept), None)
    return replace(rollout, groups=tuple(change(group) if number == first else group
                                         for number, group in enumerate(rollout.groups)))


class Control(NamedTuple):
    """A change of every batch (`RowSource`) or rollout (`RolloutSource`), which a replay must notice."""

    name_in_report: str
    description: str
    change: Callable[..., Any]


CONTROLS = {
    "pair": Control("pair", "one pair of every step swapped", with_a_pair_swapped),
    "reference": Control("reference", "one log probability of the reference moved", with_another_reference),
    "top_tokens": Control("teacher", "one log probability of the teacher moved", with_another_top_token),
    "reward": Control("reward", "one reward flipped", with_another_reward),
    "advantage": Control("advantage", "one advantage moved", with_another_advantage),
    "teacher": Control("teacher", "one log probability of the teacher moved", with_another_teacher)}
"""By the names that `Algorithm.controls` lists."""


def wrong_replays(source: BatchSource, names: Sequence[str]) -> dict[str, tuple[str, BatchSource]]:
    """The description of each of these controls and its wrong source, by its name in a report."""
    controls = [CONTROLS[name] for name in names]
    # Both kinds of source have a field `change`.
    return {control.name_in_report: (control.description, replace(cast(Any, source), change=control.change))
            for control in controls}


def _replayed_rollouts(opened: ReopenedRun, seed: int, *, exact: bool) -> RolloutSource:
    """The run's rollouts with their recorded rewards; the teacher computes again if it can be opened."""
    prompts = replace(opened.prompts, seed=seed)
    data = PromptData(resolved=opened, prompts=prompts, devices=opened.row_devices,
                      rewards=reward_settings(opened.loaded) if opened.recipe.rewards else None)
    first = opened.rollout(1)
    if first is None:
        raise RecordError(f"{opened.run.path}: no rollout of step 1")
    player, environment = None, data.environment
    # To check a record, a user's code is never run and a server is never called.
    if environment is not None and not environment.config.file and not environment.config.server:
        player = EnvironmentProcess(environment)
    sampler = data.rollout_sampler(opened.engine, RecordedRewards(recorded=first), opened.teacher_log_probs, player)
    return RolloutSource(sampler=sampler, recorded=opened.rollout, exact=exact)


def replay(opened: ReopenedRun, seed: int, *, exact: bool) -> BatchSource:
    """The batches of a sealed run's steps, made again.

    ``seed`` decides the order of the data and the sampling. ``exact``: everything is computed again, for example
    completions and the reference's log probabilities; otherwise the recorded ones are used.
    """
    way = opened.recipe.algorithm
    if way.examples == "prompts":
        return _replayed_rollouts(opened, seed, exact=exact)
    data = row_data.make_row_data(opened.recipe.model_copy(update={"seed": seed}), opened.rows, opened.row_devices)
    if isinstance(data, row_data.ReferencedPairData):
        return _replayed_pairs(opened, data, exact=exact)
    if isinstance(way.objective, TopTokens):
        return _replayed_top_tokens(opened, way.objective, data.batches)
    return RowSource(batches=data.batches, add=data.add_signals)
