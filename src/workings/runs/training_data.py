"""What a run learns from, behind one face: rows of traces or of pairs, or prompts that completions are drawn of."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import numpy as np

from workings.config.algorithms import Distill, DrawingAlgorithm, RewardAlgorithm, TraceDistill
from workings.config.load import LoadedRecipe
from workings.config.rewards import FileReward
from workings.engines.base import (
    AdapterEngine,
    Engine,
    EngineRequest,
    Inspection,
    Inspections,
    LikelihoodEngine,
    MeshShape,
    State,
)
from workings.errors import RequestError
from workings.hardware.device import DeviceFacts
from workings.models.batch import Batch, BatchShape
from workings.planning.frozen import asked_by_formula, teacher_request, with_reference, with_teacher
from workings.record.digest import json_digest
from workings.record.layout import PROMPTS, REWARDS, TEACHER
from workings.record.writer import RunWriter
from workings.rollouts import lines
from workings.rollouts.prompts import PromptSet, build_prompts, refuse_evaluation_items
from workings.rollouts.rollout import Rollout, RolloutShape
from workings.runs.find_teacher import find_teacher
from workings.runs.resolve import ResolvedRun
from workings.runs.row_data import read_rows
from workings.runs.taught_data import TaughtData, taught_data
from workings.runs.teacher import Asked, Teacher
from workings.scoring.rewards import RewardProcess, RewardSettings
from workings.training.experience import Experience
from workings.training.health import Health
from workings.training.rollout_experience import Drawing, Rewarder, RolloutEngine, RolloutExperience


class TrainingData(Protocol):
    """Data of a run that are ready to be learned from."""

    @property
    def steps(self) -> int:
        """Of the run: as the recipe says, or counted from its epochs."""
        ...

    @property
    def digests(self) -> Mapping[str, str]:
        """By what the record calls them."""
        ...

    def check(self, engine: Engine) -> None:
        """Raise `RequestError` where this engine cannot learn from them."""
        ...

    def shapes(self) -> list[BatchShape]:
        """All shapes (A, B, S) of batches that can come, longest first."""
        ...

    def blank(self, shape: BatchShape) -> Batch:
        """A batch of one of the `shapes` without contents."""
        ...

    def write(self, writer: RunWriter) -> None:
        """Write its index into the record."""
        ...

    def facts(self) -> dict[str, Any]:
        """For the run's manifest."""
        ...

    def sentence(self) -> str:
        """How much there is, for people."""
        ...

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Where the loop's batches come from, as long as the context lasts."""
        ...


@dataclass(frozen=True, kw_only=True)
class PromptData:
    """Prompts; completions are drawn of them when an update needs them."""

    resolved: ResolvedRun
    algorithm: DrawingAlgorithm
    prompts: PromptSet
    rewards: RewardSettings | None
    """None where completions are not rewarded."""
    shape: RolloutShape
    teacher: Teacher | None = None
    """None where no teacher judges the completions."""

    @property
    def steps(self) -> int:
        """As the recipe says."""
        return self.resolved.recipe.training.steps

    @property
    def digests(self) -> dict[str, str]:
        """Those of the prompts, and of what decides the rewards or of the teacher."""
        return {"prompts": self.prompts.digest,
                **({} if self.rewards is None else {"rewards": json_digest(self.rewards.recorded())}),
                **({} if self.teacher is None else {"teacher": self.teacher.digest})}

    def shapes(self) -> list[BatchShape]:
        """All shapes (A, B, S), longest first."""
        return [self.shape.of_batch(length) for length in reversed(self.shape.buckets)]

    def blank(self, shape: BatchShape) -> Batch:
        """A batch without contents, with as many supervised positions as a completion may have."""
        return Batch.blank(shape).with_loss_positions(min(self.algorithm.max_new_tokens, shape[2]))

    def write(self, writer: RunWriter) -> None:
        """Write the prompts with their expected answers, and what decides the rewards or which teacher it is."""
        writer.write_cleaned(PROMPTS, self.prompts.index_bytes)
        if self.rewards is not None:
            writer.write_json(REWARDS, self.rewards.recorded())
        if self.teacher is not None:
            writer.write_json(TEACHER, self.teacher.facts)

    def facts(self) -> dict[str, Any]:
        """How many prompts a rollout takes."""
        return {"prompts_of_a_rollout": self.shape.completions // self.algorithm.group}

    def sentence(self) -> str:
        """Prompts, and how many of them a rollout takes."""
        of_a_rollout = self.facts()["prompts_of_a_rollout"]
        return (f"{len(self.prompts.prompts):,} prompts, {len(self.prompts.dropped):,} dropped; a rollout draws "
                f"{self.algorithm.group} completions of each of {of_a_rollout:,}")

    def check(self, engine: Engine) -> None:
        """Raise `RequestError` where this engine does not draw, keeps adapters on, or refuses the teacher."""
        if not isinstance(engine, RolloutEngine):
            raise RequestError(f"algorithm.name: {self.resolved.recipe.algorithm.name} with engine {engine.name}",
                               "an engine that draws completions", "engine=jax")
        if self._below_adapters and not isinstance(engine, AdapterEngine):
            raise RequestError(f"algorithm.kl_beta above 0 with adapters of engine {engine.name}",
                               "an engine that switches them off", "algorithm.kl_beta=0")
        if self.teacher is not None:
            self.teacher.open(engine, self.resolved)  # no weight is read before it is asked

    @property
    def _below_adapters(self) -> bool:
        """Whether the reference is the model below the adapters."""
        return self._holds_first_model and self.resolved.recipe.method.name != "full"

    @property
    def _holds_first_model(self) -> bool:
        return self.algorithm.has_reference and not isinstance(self.algorithm, Distill)

    def drawing(self, engine: Engine, rewarder: Rewarder | None, teacher: Asked | None = None) -> Drawing:
        """How this run's rollouts are drawn. Raises `RequestError` as `check` does.

        Args:
            engine: of the model that is trained.
            rewarder: gives rewards; None where the algorithm has none.
            teacher: what the teacher says, opened; None without one.
        """
        self.check(engine)
        assert isinstance(engine, RolloutEngine)  # as `check` has seen
        return Drawing(engine=engine, prompts=self.prompts, algorithm=self.algorithm, shape=self.shape,
                       rewarder=None if self.rewards is None else rewarder, reward_settings=self.rewards,
                       tokenizer=self.resolved.tokenizer,
                       stop_ids=self.resolved.template.stop_ids, seed=self.prompts.seed,
                       reference=self._first_model(engine) if teacher is None else lambda state, batch: teacher(batch))

    def _first_model(self, engine: Engine) -> Callable[[State, Batch], np.ndarray] | None:
        """The model that training began with; None where the recipe does not hold on to it."""
        if not self._holds_first_model:
            return None
        assert isinstance(engine, LikelihoodEngine)  # as `check` has seen
        if self._below_adapters:
            assert isinstance(engine, AdapterEngine)  # likewise
            return lambda state, batch: engine.log_probs(engine.without_adapters(state), batch)
        # Read once, when the first rollout asks for it: it stays in memory beside the model that is trained.
        frozen = cache(lambda: self.resolved.initial_state(engine, self.resolved.recipe.seed, trainable=False))
        return lambda state, batch: engine.log_probs(frozen(), batch)

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Rollouts, recorded as they are learned from; the process that gives rewards lives as long as the context."""
        return _rollouts(self, engine, writer)


@contextmanager
def _rollouts(data: PromptData, engine: Engine, writer: RunWriter) -> Iterator[Experience]:
    """Rollouts, with the process that gives rewards, and with the teacher."""
    by_id = {prompt.item.id: prompt for prompt in data.prompts.prompts}

    def recorded(step: int) -> Rollout | None:
        values = writer.rollout(step)
        return None if values is None else lines.from_json(values, by_id)

    teacher = None if data.teacher is None else data.teacher.open(engine, data.resolved)
    with nullcontext() if data.rewards is None else RewardProcess(data.rewards) as rewarder:
        yield RolloutExperience(
            data.drawing(engine, rewarder, teacher), recorded=recorded,
            record=lambda rollout: writer.write_rollout(rollout.step, lines.to_json(rollout)),
            # On a resume these are the lines up to the checkpoint: `begin_again` has cut the others.
            health=Health.of(data.algorithm, writer.metrics()))


def reward_settings(loaded: LoadedRecipe) -> RewardSettings:
    """What decides the rewards of a recipe's completions."""
    recipe = loaded.recipe
    assert isinstance(recipe.algorithm, RewardAlgorithm)  # no other recipe has rewards
    return RewardSettings(rewards=recipe.rewards, form=recipe.data.reasoning, base=loaded.base,
                          max_new_tokens=recipe.algorithm.max_new_tokens)


def prompts_of(resolved: ResolvedRun) -> PromptSet:
    """The prompts of a recipe that draws completions. Raises `RequestError` for one that must not be learned from."""
    recipe = resolved.recipe
    assert isinstance(recipe.algorithm, DrawingAlgorithm)  # no other recipe has prompts
    prompts = build_prompts(resolved.data.prompts, resolved.template, seed=recipe.seed,
                            longest=recipe.data.max_length - recipe.algorithm.max_new_tokens,
                            drop=recipe.data.over_length == "drop")
    refuse_evaluation_items(prompts.prompts, resolved.data.items)
    return prompts


def read_training_data(resolved: ResolvedRun) -> Callable[[int], TrainingData]:
    """What a recipe learns from, proved row by row or prompt by prompt.

    Returns:
        A function of the number of devices over which rows are split, which is not known before they are opened.

    Raises:
        RequestError: a row or a prompt that must not be learned from; or rows that do not make whole groups.
    """
    recipe = resolved.recipe
    if isinstance(recipe.algorithm, Distill):
        teacher = find_teacher(resolved.loaded, resolved.tokenizer, resolved.shape)
        return partial(prompt_data, resolved, prompts_of(resolved), teacher=teacher)
    if isinstance(recipe.algorithm, TraceDistill):
        teacher, rows = find_teacher(resolved.loaded, resolved.tokenizer, resolved.shape), read_rows(resolved)
        return lambda fsdp: taught_data(resolved, rows(fsdp), teacher)
    if not isinstance(recipe.algorithm, RewardAlgorithm):
        return read_rows(resolved)
    # Files of rewards that are not there, or that cannot be loaded, are found before a device is opened.
    settings = reward_settings(resolved.loaded)
    settings.recorded()
    if any(isinstance(reward, FileReward) for reward in settings.rewards):
        with RewardProcess(settings):
            pass
    return partial(prompt_data, resolved, prompts_of(resolved))


def prompt_data(resolved: ResolvedRun, prompts: PromptSet, fsdp: int, teacher: Teacher | None = None) -> PromptData:
    """Prompts with the sizes of what is drawn of them. Raises `RequestError` for rows that make no whole groups."""
    recipe, algorithm = resolved.recipe, resolved.recipe.algorithm
    assert isinstance(algorithm, DrawingAlgorithm)  # no other recipe has prompts
    recipe.require_complete_groups(fsdp)
    return PromptData(resolved=resolved, algorithm=algorithm, prompts=prompts, teacher=teacher,
                      rewards=reward_settings(resolved.loaded) if recipe.learns_from_rewards else None,
                      shape=RolloutShape.of(recipe, algorithm, fsdp=fsdp, pad_id=resolved.tokenizer.pad_id))


def beside_frozen(learned: TrainingData, request: EngineRequest, device: DeviceFacts,
                  step: Inspection) -> Inspections:
    """What the step needs beside the frozen model that its data ask for, if they ask for one.

    Of a teacher also the program in which it is asked, by formula: compiling it is left to `workings plan`.
    """
    mesh = MeshShape(device.mesh["fsdp"], device.mesh["tp"])
    needs = with_reference(request, mesh, {"step": step})
    teacher = learned.teacher if isinstance(learned, PromptData | TaughtData) else None
    if teacher is None:
        return needs
    theirs = teacher_request(request, teacher.model, teacher.algorithm.teacher_precision)
    asked = asked_by_formula(theirs, learned.shapes()[0], mesh, device.platform)
    return with_teacher(request, theirs, mesh, needs, asked, stays=isinstance(learned, PromptData))
