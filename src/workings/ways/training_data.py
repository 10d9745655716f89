"""Training data behind one interface: rows of traces or of pairs, or prompts whose completions are sampled."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from workings.config.algorithms import Distill, RewardAlgorithm, RolloutAlgorithm, TraceDistill
from workings.config.load import LoadedRecipe
from workings.config.rewards import FileReward
from workings.data.rows import prompt_digest
from workings.engines.base import (
    AdapterEngine,
    Engine,
    LikelihoodEngine,
    State,
)
from workings.errors import RequestError
from workings.inputs.resolve import ResolvedRun
from workings.models.batch import Batch, BatchShape
from workings.record.digest import json_digest
from workings.record.layout import PROMPTS, REWARDS, TEACHER
from workings.record.writer import RunWriter
from workings.rollouts import rollout_json
from workings.rollouts.prompts import PromptSet, build_prompts, refuse_evaluation_items
from workings.rollouts.rollout import Rollout, RolloutShape
from workings.scoring.items import Item
from workings.scoring.rewards import RewardProcess, RewardSettings
from workings.ways.distillation_data import distillation_data
from workings.ways.experience import Experience
from workings.ways.find_teacher import find_teacher
from workings.ways.rollout_experience import Rewarder, RolloutEngine, RolloutExperience, RolloutSampler
from workings.ways.row_data import TraceData, read_row_data
from workings.ways.stall_detector import StallDetector
from workings.ways.teacher import LogProbFunction, Teacher


class TrainingData(Protocol):
    """Data of a run, ready for training."""

    @property
    def steps(self) -> int:
        """Steps of the run: the recipe's number, or counted from its epochs."""
        ...

    @property
    def digests(self) -> Mapping[str, str]:
        """Digests by their name in the record."""
        ...

    def check(self, engine: Engine) -> None:
        """Raises `RequestError` if this engine cannot be trained on them."""
        ...

    def shapes(self) -> list[BatchShape]:
        """All shapes (A, B, S) that batches can have, longest first."""
        ...

    def blank(self, shape: BatchShape) -> Batch:
        """A batch of one of the `shapes` without contents."""
        ...

    def write(self, writer: RunWriter) -> None:
        """Writes their index into the record."""
        ...

    def facts(self) -> dict[str, Any]:
        """Fields of the run's manifest."""
        ...

    def sentence(self) -> str:
        """Their amount, for people."""
        ...

    def remarks(self) -> list[str]:
        """Lines of the log about what could be better."""
        ...

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Source of the loop's batches, as long as the context lasts."""
        ...


@dataclass(frozen=True, kw_only=True)
class PromptData:
    """Prompts; their completions are sampled when an update needs them."""

    resolved: ResolvedRun
    algorithm: RolloutAlgorithm
    prompts: PromptSet
    rewards: RewardSettings | None
    """None if completions are not rewarded."""
    shape: RolloutShape
    teacher: Teacher | None = None
    """None if no teacher judges the completions."""

    @property
    def steps(self) -> int:
        """Steps of the recipe."""
        return self.resolved.recipe.training.steps

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the prompts, and of the reward settings or the teacher."""
        return {"prompts": self.prompts.digest,
                **({} if self.rewards is None else {"rewards": json_digest(self.rewards.recorded())}),
                **({} if self.teacher is None else {"teacher": self.teacher.digest})}

    def shapes(self) -> list[BatchShape]:
        """All shapes (A, B, S), longest first."""
        return [self.shape.batch_shape(length) for length in reversed(self.shape.buckets)]

    def blank(self, shape: BatchShape) -> Batch:
        """A batch without contents, with as many supervised positions as a completion may have."""
        return Batch.blank(shape).with_loss_positions(min(self.algorithm.max_new_tokens, shape[2]))

    def write(self, writer: RunWriter) -> None:
        """Writes the prompts with their expected answers, and the reward settings or the teacher's identity."""
        writer.write_cleaned(PROMPTS, self.prompts.index_bytes)
        if self.rewards is not None:
            writer.write_json(REWARDS, self.rewards.recorded())
        if self.teacher is not None:
            writer.write_json(TEACHER, self.teacher.facts)

    def facts(self) -> dict[str, Any]:
        """Number of prompts of a rollout."""
        return {"prompts_of_a_rollout": self.shape.completions // self.algorithm.group}

    def sentence(self) -> str:
        """Numbers of prompts, in all and of a rollout."""
        of_a_rollout = self.facts()["prompts_of_a_rollout"]
        return (f"{len(self.prompts.prompts):,} prompts, {len(self.prompts.dropped):,} dropped; a rollout samples "
                f"{self.algorithm.group} completions of each of {of_a_rollout:,}")

    def remarks(self) -> list[str]:
        """Nothing to say."""
        return []

    def check(self, engine: Engine) -> None:
        """Raises `RequestError` if the engine cannot sample, switch adapters off, or open the teacher."""
        if not isinstance(engine, RolloutEngine):
            raise RequestError(f"algorithm.name: {self.resolved.recipe.algorithm.name} with engine {engine.name}",
                               "an engine that samples completions", "engine=jax")
        if self._reference_is_below_adapters and not isinstance(engine, AdapterEngine):
            raise RequestError(f"algorithm.kl_beta above 0 with adapters of engine {engine.name}",
                               "an engine that switches them off", "algorithm.kl_beta=0")
        if self.teacher is not None:
            self.teacher.open(engine, self.resolved)  # no weight is read before the first call

    @property
    def _reference_is_below_adapters(self) -> bool:
        """Whether the reference is the model below the adapters."""
        return self._has_first_model and not self.resolved.recipe.method.trains_all_weights

    @property
    def _has_first_model(self) -> bool:
        """Whether the reference is the model before training."""
        return self.algorithm.has_reference and not isinstance(self.algorithm, Distill)

    def rollout_sampler(self, engine: Engine, rewarder: Rewarder | None,
                        teacher: LogProbFunction | None = None) -> RolloutSampler:
        """The sampler of this run's rollouts. Raises `RequestError` as `check` does.

        Args:
            engine: of the model that is trained.
            rewarder: gives rewards; None if the algorithm has none.
            teacher: log probabilities under the teacher; None without one.
        """
        self.check(engine)
        assert isinstance(engine, RolloutEngine)  # `check` has refused others
        return RolloutSampler(engine=engine, prompts=self.prompts, algorithm=self.algorithm, shape=self.shape,
                       rewarder=None if self.rewards is None else rewarder, reward_settings=self.rewards,
                       tokenizer=self.resolved.tokenizer,
                       stop_ids=self.resolved.template.stop_ids, seed=self.prompts.seed,
                       reference=self._first_model(engine) if teacher is None else lambda state, batch: teacher(batch))

    def _first_model(self, engine: Engine) -> Callable[[State, Batch], np.ndarray] | None:
        """Log probabilities under the model before training; None if the recipe has no such reference."""
        if not self._has_first_model:
            return None
        assert isinstance(engine, LikelihoodEngine)  # `check` has refused others
        if self._reference_is_below_adapters:
            assert isinstance(engine, AdapterEngine)  # as above
            return lambda state, batch: engine.log_probs(engine.without_adapters(state), batch)
        # Loaded once, for the first rollout: it stays in memory beside the trained model.
        frozen = cache(lambda: self.resolved.initial_state(engine, self.resolved.recipe.seed, trainable=False))
        return lambda state, batch: engine.log_probs(frozen(), batch)

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Rollouts, recorded after their first update; the process that gives rewards lives as long as the context."""
        return _rollouts(self, engine, writer)


@contextmanager
def _rollouts(data: PromptData, engine: Engine, writer: RunWriter) -> Iterator[Experience]:
    """Rollouts, with the process that gives rewards and the opened teacher."""
    by_id = {prompt.item.id: prompt for prompt in data.prompts.prompts}

    def load_rollout(step: int) -> Rollout | None:
        values = writer.rollout(step)
        return None if values is None else rollout_json.from_json(values, by_id)

    teacher = None if data.teacher is None else data.teacher.open(engine, data.resolved)
    with nullcontext() if data.rewards is None else RewardProcess(data.rewards) as gives_rewards:
        yield RolloutExperience(
            data.rollout_sampler(engine, gives_rewards, teacher), load_rollout=load_rollout,
            save_rollout=lambda rollout: writer.write_rollout(rollout.step, rollout_json.to_json(rollout)),
            # On a resume these are the lines up to the checkpoint: `resume_run` has removed later ones.
            stall_detector=StallDetector.from_lines(data.algorithm, writer.metrics()))


def reward_settings(loaded: LoadedRecipe) -> RewardSettings:
    """Reward settings of a recipe."""
    recipe = loaded.recipe
    assert isinstance(recipe.algorithm, RewardAlgorithm)  # no other recipe has rewards
    return RewardSettings(rewards=recipe.rewards, form=recipe.data.reasoning, base=loaded.base,
                          max_new_tokens=recipe.algorithm.max_new_tokens)


def prompts_of(resolved: ResolvedRun) -> PromptSet:
    """The prompts of a recipe with rollouts. Raises `RequestError` for one that must not be trained on."""
    recipe = resolved.recipe
    assert isinstance(recipe.algorithm, RolloutAlgorithm)  # no other recipe has prompts
    prompts = build_prompts(resolved.data.prompts, resolved.template, seed=recipe.seed,
                            longest=recipe.data.max_length - recipe.algorithm.max_new_tokens,
                            drop=recipe.data.over_length == "drop")
    refuse_evaluation_items(prompts.prompts, resolved.data.items)
    return prompts


def read_training_data(resolved: ResolvedRun) -> Callable[[int], TrainingData]:
    """Reads and checks a recipe's training data, row by row or prompt by prompt.

    Returns:
        A function of the number of devices over which rows are split, which is not known before they are opened.

    Raises:
        RequestError: a row or a prompt that must not be trained on; or rows that do not make whole groups.
    """
    recipe = resolved.recipe
    if isinstance(recipe.algorithm, Distill):
        teacher = find_teacher(resolved.loaded, resolved.tokenizer, resolved.shape)
        return partial(prompt_data, resolved, prompts_of(resolved), teacher=teacher)
    if isinstance(recipe.algorithm, TraceDistill):
        teacher, rows = find_teacher(resolved.loaded, resolved.tokenizer, resolved.shape), read_row_data(resolved)
        return lambda fsdp: distillation_data(resolved, rows(fsdp), teacher)
    if not isinstance(recipe.algorithm, RewardAlgorithm):
        return read_row_data(resolved)
    # Missing or broken files of rewards are found before a device is opened.
    settings = reward_settings(resolved.loaded)
    settings.recorded()
    if any(isinstance(reward, FileReward) for reward in settings.rewards):
        with RewardProcess(settings):
            pass
    return partial(prompt_data, resolved, prompts_of(resolved))


def prompt_data(resolved: ResolvedRun, prompts: PromptSet, fsdp: int, teacher: Teacher | None = None) -> PromptData:
    """Prompts with the sizes of their rollouts. Raises `RequestError` if rows do not make whole groups."""
    recipe, algorithm = resolved.recipe, resolved.recipe.algorithm
    assert isinstance(algorithm, RolloutAlgorithm)  # no other recipe has prompts
    recipe.require_complete_groups(fsdp)
    return PromptData(resolved=resolved, algorithm=algorithm, prompts=prompts, teacher=teacher,
                      rewards=reward_settings(resolved.loaded) if recipe.uses_rewards else None,
                      shape=RolloutShape.from_recipe(recipe, algorithm, fsdp=fsdp, pad_id=resolved.tokenizer.pad_id))


def trained_item_ids(items: Sequence[Item], data: TrainingData) -> list[str]:
    """Ids of held-out items whose question is in the training data as well: their answers measure nothing.

    Questions are compared as `workings verify` compares them, which fails such a run.
    """
    if isinstance(data, PromptData):
        digests = {prompt_digest(prompt.item.prompt) for prompt in data.prompts.prompts}
    else:
        assert isinstance(data, TraceData)  # the only other kind
        digests = {digest for row in data.rows.rows for digest in (row.prompt_digest, *row.earlier_prompt_digests)}
    return [item.id for item in items if prompt_digest(item.prompt) in digests]
