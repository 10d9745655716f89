"""Training data: rows of traces or of pairs, or prompts whose completions are sampled."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property

import numpy as np

from workings.config.load import LoadedRecipe
from workings.config.recipe import Recipe
from workings.config.rewards import FileReward
from workings.data.rows import prompt_digest
from workings.engines.base import AdapterEngine, Engine, LikelihoodEngine, Sampler, State
from workings.environments.process import EnvironmentProcess
from workings.environments.settings import EnvironmentSettings
from workings.errors import RequestError
from workings.hardware.device import row_devices
from workings.inputs.resolve import ResolvedRun
from workings.models.batch import Batch
from workings.record.digest import json_digest
from workings.record.layout import EPISODES, PROMPTS, REWARDS, TEACHER
from workings.record.writer import RunWriter
from workings.rollouts import rollout_json
from workings.rollouts.episodes import EpisodeRules
from workings.rollouts.prompts import PromptSet, build_prompts, refuse_evaluation_items
from workings.rollouts.rollout import Rollout
from workings.scoring.rewards import RewardProcess, RewardSettings
from workings.ways.parts.experience import Experience
from workings.ways.parts.rollout_batch import RolloutShape, rollout_way
from workings.ways.parts.rollout_experience import Rewarder, RolloutExperience, RolloutSampler, StallDetector
from workings.ways.parts.rollout_way import RolloutWay
from workings.ways.parts.row_data import DistillationData, TraceData, make_row_data, read_rows
from workings.ways.parts.teacher import LogProbFunction, Teacher, find_teacher


@dataclass(frozen=True, kw_only=True)
class PromptData:
    """Prompts; their completions are sampled when an update needs them."""

    resolved: ResolvedRun
    prompts: PromptSet
    devices: int
    """Number of devices over which rows are split."""
    rewards: RewardSettings | None = None
    """None if completions are not rewarded."""
    teacher: Teacher | None = None
    """None if no teacher judges the completions."""

    @property
    def algorithm(self) -> RolloutWay:
        """The way of learning."""
        return rollout_way(self.resolved.recipe)

    @cached_property
    def shape(self) -> RolloutShape:
        """Sizes of the rollouts. Raises `RequestError` if rows do not make whole groups."""
        self.algorithm.check_devices(self.resolved.recipe, self.devices)
        return RolloutShape.from_recipe(self.resolved.recipe, self.algorithm, devices=self.devices,
                                        pad_id=self.resolved.tokenizer.pad_id)

    @property
    def steps(self) -> int:
        """Steps of the recipe."""
        return self.resolved.recipe.training.steps

    @property
    def digests(self) -> dict[str, str]:
        """Digests of the prompts, and of the reward settings or the teacher."""
        return {"prompts": self.prompts.digest,
                **({} if self.rewards is None else {"rewards": json_digest(self.rewards.recorded())}),
                **({} if self.environment is None else {"environment": json_digest(self.environment.recorded())}),
                **({} if self.teacher is None else {"teacher": self.teacher.digest})}

    @property
    def environment(self) -> EnvironmentSettings | None:
        """The environment of the recipe; None without one."""
        config = self.resolved.recipe.environment
        return None if config is None else EnvironmentSettings(config=config, base=self.resolved.loaded.base)

    def longest(self) -> Batch:
        """The longest batch, without contents, with the supervised positions of the longest completion."""
        length = self.shape.buckets[-1]
        return Batch.blank(self.shape.batch_shape(length)).with_loss_positions(min(self.shape.learned, length))

    def write(self, writer: RunWriter) -> None:
        """Writes the prompts with their expected answers, and the reward settings or the teacher's identity."""
        writer.write_cleaned(PROMPTS, self.prompts.index_bytes)
        if self.rewards is not None:
            writer.write_json(REWARDS, self.rewards.recorded())
        if self.environment is not None:
            writer.write_json(EPISODES, self.environment.recorded())
        if self.teacher is not None:
            writer.write_json(TEACHER, self.teacher.facts)

    def sentence(self) -> str:
        """Number of all prompts, and of those of a rollout."""
        of_a_rollout = self.shape.completions // self.algorithm.group
        return (f"{len(self.prompts.prompts):,} prompts, {len(self.prompts.dropped):,} dropped; a rollout samples "
                f"{self.algorithm.group} completions of each of {of_a_rollout:,}")

    def check(self, engine: Engine) -> None:
        """Raises `RequestError` if the engine lacks something, or rows do not make whole groups."""
        _ = self.shape
        if not isinstance(engine, LikelihoodEngine) or not isinstance(engine, Sampler):
            name = self.resolved.recipe.algorithm.name
            raise RequestError(f"engine {engine.name} does not run algorithm.name: {name}",
                               "an engine that samples completions", "engine=jax")
        if (self._has_first_model and not self.resolved.recipe.method.trains_all_weights
                and not isinstance(engine, AdapterEngine)):
            raise RequestError(f"engine {engine.name} does not support algorithm.kl_beta above 0 with adapters",
                               "an engine that switches them off", "algorithm.kl_beta=0")
        if self.teacher is not None:
            self.teacher.open(engine, self.resolved)  # no weight is read before the first call

    @property
    def _has_first_model(self) -> bool:
        """Whether there is a reference that is the model before training, and not a teacher."""
        return self.algorithm.has_reference and self.algorithm.teacher_keys is None

    def rollout_sampler(self, engine: Engine, rewarder: Rewarder | None, teacher: LogProbFunction | None = None,
                        player: EnvironmentProcess | None = None) -> RolloutSampler:
        """The sampler of this run's rollouts. Raises `RequestError` as `check` does."""
        self.check(engine)
        recipe, weights = self.resolved.recipe, self.resolved.weights.directory
        sampler = engine if recipe.sampler is None else recipe.sampler.open(recipe, engine, weights)
        assert isinstance(engine, LikelihoodEngine)  # `check` has refused others
        assert isinstance(sampler, Sampler)  # likewise
        return RolloutSampler(
            sampler=sampler, engine=engine, prompts=self.prompts, algorithm=self.algorithm, shape=self.shape,
            rewarder=None if self.rewards is None else rewarder, reward_settings=self.rewards,
            template=self.resolved.template, player=player, rules=episode_rules(recipe),
            seed=self.prompts.seed, ahead=recipe.sampler is not None and recipe.sampler.ahead,
            reference=self._first_model(engine) if teacher is None else lambda state, batch: teacher(batch))

    def _first_model(self, engine: Engine) -> Callable[[State, Batch], np.ndarray] | None:
        """Log probabilities under the model before training; None if the recipe has no such reference."""
        if not self._has_first_model:
            return None
        assert isinstance(engine, LikelihoodEngine)  # `check` has refused others
        if not self.resolved.recipe.method.trains_all_weights:
            assert isinstance(engine, AdapterEngine)  # likewise
            return lambda state, batch: engine.log_probs(engine.without_adapters(state), batch)
        frozen = cache(lambda: self.resolved.initial_state(engine, self.resolved.recipe.seed, trainable=False))
        return lambda state, batch: engine.log_probs(frozen(), batch)

    def question_digests(self) -> set[str]:
        """Digests of the questions of all prompts."""
        return {prompt_digest(prompt.item.prompt) for prompt in self.prompts.prompts}

    @contextmanager
    def experience(self, engine: Engine, writer: RunWriter) -> Iterator[Experience]:
        """Rollouts, recorded after their first update. In this context the processes of rewards and environment run."""
        def load_rollout(step: int) -> Rollout | None:
            values = writer.rollout(step)
            return None if values is None else rollout_json.from_json(values, self.prompts.by_id)

        teacher = None if self.teacher is None else self.teacher.open(engine, self.resolved)
        with (nullcontext() if self.rewards is None else RewardProcess(self.rewards) as rewarder,
              nullcontext() if self.environment is None else EnvironmentProcess(self.environment) as player):
            yield RolloutExperience(
                self.rollout_sampler(engine, rewarder, teacher, player), load_rollout=load_rollout,
                save_rollout=lambda rollout: writer.write_rollout(rollout.step, rollout_json.to_json(rollout)),
                # `resume_run` has removed the lines of steps after the checkpoint.
                stall_detector=StallDetector.from_lines(self.algorithm, writer.metrics()), last_step=self.steps)


TrainingData = TraceData | PromptData
"""Data of a run, ready for training."""


def prepare_data(resolved: ResolvedRun, engine: Engine) -> TrainingData:
    """Reads and checks a run's training data, and decides their order; no weight is read. Raises `RequestError`."""
    recipe, devices = resolved.recipe, row_devices(engine.describe().mesh)
    data: TrainingData
    if recipe.algorithm.examples == "prompts":
        data = make_prompt_data(resolved, devices)
    elif recipe.algorithm.teacher_keys is not None:
        teacher = find_teacher(resolved.loaded, resolved.tokenizer, resolved.shape)
        data = DistillationData(recipe=recipe, rows=read_rows(resolved), devices=devices, resolved=resolved,
                                teacher=teacher)
    else:
        data = make_row_data(recipe, read_rows(resolved), devices)
    data.check(engine)
    return data


def make_prompt_data(resolved: ResolvedRun, devices: int) -> PromptData:
    """The prompts of a recipe, with its rewards or its teacher.

    Raises `RequestError` for what is missing or must not be trained on, such as a broken file of rewards.
    """
    recipe, prompts = resolved.recipe, prompts_of(resolved)
    rewards: RewardSettings | None = None
    teacher: Teacher | None = None
    if recipe.rewards:
        rewards = reward_settings(resolved.loaded)
        rewards.recorded()  # finds missing files first
        if any(isinstance(reward, FileReward) for reward in recipe.rewards):
            # Loads the user's functions, so that a broken file is found before anything is sampled.
            with RewardProcess(rewards):
                pass
    if rollout_way(recipe).teacher_keys is not None:
        teacher = find_teacher(resolved.loaded, resolved.tokenizer, resolved.shape)
    return PromptData(resolved=resolved, prompts=prompts, devices=devices, rewards=rewards, teacher=teacher)


def reward_settings(loaded: LoadedRecipe) -> RewardSettings:
    """Reward settings of a recipe with rewards."""
    recipe = loaded.recipe
    return RewardSettings(rewards=recipe.rewards, form=recipe.data.reasoning, base=loaded.base,
                          max_new_tokens=rollout_way(recipe).most_written(recipe))


def episode_rules(recipe: Recipe) -> EpisodeRules | None:
    """The rules by which an episode ends; None without an environment."""
    if recipe.environment is None:
        return None
    return EpisodeRules(turns=recipe.environment.turns, max_length=recipe.data.max_length,
                        max_new_tokens=rollout_way(recipe).max_new_tokens)


def prompts_of(resolved: ResolvedRun) -> PromptSet:
    """The prompts of a recipe with rollouts. Raises `RequestError` for one that must not be trained on."""
    recipe = resolved.recipe
    prompts = build_prompts(resolved.data.prompts, resolved.template, seed=recipe.seed,
                            longest=recipe.data.max_length - rollout_way(recipe).max_new_tokens,
                            drop=recipe.data.over_length == "drop")
    refuse_evaluation_items(prompts.prompts, resolved.data.items)
    return prompts
