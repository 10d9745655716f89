"""What a run learns from, behind one face: rows of traces, or prompts that completions are drawn of."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

from workings.config.algorithms import RewardAlgorithm
from workings.config.load import LoadedRecipe
from workings.data.batches import Batches
from workings.data.row_cache import MIN_CACHED_ROWS, cache_key, cached_rows
from workings.data.rows import RowSet, build_rows
from workings.engines.base import AdapterEngine, Engine, LikelihoodEngine, SamplingEngine, State
from workings.errors import RequestError
from workings.hardware.machine import cache_directory
from workings.models.batch import Batch
from workings.record.digest import json_digest
from workings.record.layout import PROMPTS, REWARDS, ROWS
from workings.record.writer import RunWriter
from workings.rollouts import lines
from workings.rollouts.prompts import PromptSet, build_prompts, refuse_evaluation_items
from workings.rollouts.rollout import Rollout, RolloutShape
from workings.runs.resolve import ResolvedRun
from workings.scoring.rewards import RewardProcess, RewardSettings
from workings.training.experience import Experience, TraceExperience
from workings.training.health import Health
from workings.training.rollout_experience import Drawing, Rewarder, RolloutExperience


class TrainingData(Protocol):
    """Data of a run that are ready to be learned from."""

    @property
    def digests(self) -> Mapping[str, str]:
        """By what the record calls them."""
        ...

    def check(self, engine: Engine) -> None:
        """Raise `RequestError` where this engine cannot learn from them."""
        ...

    def shapes(self) -> list[tuple[int, int, int]]:
        """All shapes (A, B, S) of batches that can come, longest first."""
        ...

    def blank(self, shape: tuple[int, int, int]) -> Batch:
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
class TraceData:
    """Rows of traces, in batches whose order is known before the first step."""

    rows: RowSet
    batches: Batches

    @property
    def digests(self) -> dict[str, str]:
        """That of the rows."""
        return {"rows": self.rows.digest}

    def check(self, engine: Engine) -> None:
        """Every engine learns from traces."""

    def shapes(self) -> list[tuple[int, int, int]]:
        """All shapes (A, B, S), longest first."""
        return self.batches.shapes()

    def blank(self, shape: tuple[int, int, int]) -> Batch:
        """A batch without contents."""
        return self.batches.blank(shape)

    def write(self, writer: RunWriter) -> None:
        """Write the row index."""
        # Cleaned when the rows were made: their digest has to be that of the bytes on the disk.
        writer.write_cleaned(ROWS, self.rows.index_bytes)

    def facts(self) -> dict[str, Any]:
        """Padding, and the positions with which every row begins."""
        return {"padding_share_of_first_epoch": self.batches.padding_share(),
                "shared_prefix_of_rows": self.rows.shared_prefix}

    def sentence(self) -> str:
        """Rows, dropped ones, supervised tokens, padding."""
        return (f"{len(self.rows.rows):,} rows, {len(self.rows.dropped):,} dropped, "
                f"{self.rows.supervised_tokens:,} supervised tokens an epoch, "
                f"{self.batches.padding_share():.1%} padding in epoch 0")

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Batches by their position."""
        del engine, writer
        return nullcontext(TraceExperience(self.batches))


@dataclass(frozen=True, kw_only=True)
class PromptData:
    """Prompts; completions are drawn of them when an update needs them."""

    resolved: ResolvedRun
    algorithm: RewardAlgorithm
    prompts: PromptSet
    rewards: RewardSettings
    shape: RolloutShape

    @property
    def digests(self) -> dict[str, str]:
        """Those of the prompts, and of what decides the rewards."""
        return {"prompts": self.prompts.digest,
                "rewards": json_digest(self.rewards.recorded())}

    def shapes(self) -> list[tuple[int, int, int]]:
        """All shapes (A, B, S), longest first."""
        return [self.shape.of_batch(length) for length in reversed(self.shape.buckets)]

    def blank(self, shape: tuple[int, int, int]) -> Batch:
        """A batch without contents, with as many supervised positions as a completion may have."""
        return Batch.blank(shape).with_loss_positions(min(self.algorithm.max_new_tokens, shape[2]))

    def write(self, writer: RunWriter) -> None:
        """Write the prompts with their expected answers, and what decides the rewards."""
        writer.write_cleaned(PROMPTS, self.prompts.index_bytes)
        writer.write_json(REWARDS, self.rewards.recorded())

    def facts(self) -> dict[str, Any]:
        """How many prompts a rollout takes."""
        return {"prompts_of_a_rollout": self.shape.completions // self.algorithm.group}

    def sentence(self) -> str:
        """Prompts, and how many of them a rollout takes."""
        of_a_rollout = self.facts()["prompts_of_a_rollout"]
        return (f"{len(self.prompts.prompts):,} prompts, {len(self.prompts.dropped):,} dropped; a rollout draws "
                f"{self.algorithm.group} completions of each of {of_a_rollout:,}")

    def check(self, engine: Engine) -> None:
        """Raise `RequestError` where this engine does not draw, or has adapters and does not switch them off."""
        if not isinstance(engine, SamplingEngine) or not isinstance(engine, LikelihoodEngine):
            raise RequestError(f"algorithm.name: {self.resolved.recipe.algorithm.name} with engine {engine.name}",
                               "an engine that draws completions", "engine=jax")
        adapters = self.resolved.recipe.method.name != "full"
        if self.algorithm.kl_beta and adapters and not isinstance(engine, AdapterEngine):
            raise RequestError(f"algorithm.kl_beta: {self.algorithm.kl_beta:g} with adapters of engine {engine.name}",
                               "an engine that switches them off", "algorithm.kl_beta=0")

    def drawing(self, engine: Engine, rewarder: Rewarder) -> Drawing:
        """How this run's rollouts are drawn. Raises `RequestError` as `check` does."""
        self.check(engine)
        # The two protocols together are what drawing asks for.
        both: Any = engine
        return Drawing(engine=both, prompts=self.prompts, algorithm=self.algorithm, shape=self.shape,
                       rewarder=rewarder, reward_settings=self.rewards,
                       tokenizer=self.resolved.tokenizer,
                       stop_ids=self.resolved.template.stop_ids, seed=self.prompts.seed,
                       reference=self.reference(engine))

    def reference(self, engine: Engine) -> Callable[[State], State] | None:
        """The model that training began with; None where the recipe does not hold on to it."""
        if not self.algorithm.kl_beta:
            return None
        if self.resolved.recipe.method.name != "full":
            assert isinstance(engine, AdapterEngine)  # `check` has looked
            return engine.without_adapters
        # Read once, when the first rollout asks for it: it stays in memory beside the model that is trained.
        frozen = cache(lambda: self.resolved.initial_state(engine, self.resolved.recipe.seed, trainable=False))
        return lambda state: frozen()

    def experience(self, engine: Engine, writer: RunWriter) -> AbstractContextManager[Experience]:
        """Rollouts, recorded as they are learned from; the process that gives rewards lives as long as the context."""
        return _rollouts(self, engine, writer)


@contextmanager
def _rollouts(data: PromptData, engine: Engine, writer: RunWriter) -> Iterator[Experience]:
    """Rollouts, with the process that gives rewards."""
    by_id = {prompt.item.id: prompt for prompt in data.prompts.prompts}

    def recorded(step: int) -> Rollout | None:
        values = writer.rollout(step)
        return None if values is None else lines.from_json(values, by_id)

    with RewardProcess(data.rewards) as rewarder:
        yield RolloutExperience(
            data.drawing(engine, rewarder), recorded=recorded,
            record=lambda rollout: writer.write_rollout(rollout.step, lines.to_json(rollout)),
            health=Health.of(data.algorithm, writer.metrics()))


def reward_settings(loaded: LoadedRecipe) -> RewardSettings:
    """What decides the rewards of a recipe's completions."""
    recipe = loaded.recipe
    assert isinstance(recipe.algorithm, RewardAlgorithm)  # no other recipe has rewards
    return RewardSettings(rewards=recipe.rewards, form=recipe.data.reasoning, base=loaded.base,
                          max_new_tokens=recipe.algorithm.max_new_tokens)


def prompts_of(resolved: ResolvedRun) -> PromptSet:
    """The prompts of a recipe that learns from rewards. Raises `RequestError` for one that must not be learned from."""
    recipe = resolved.recipe
    assert isinstance(recipe.algorithm, RewardAlgorithm)  # no other recipe has prompts
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
    if not isinstance(recipe.algorithm, RewardAlgorithm):
        rows = _rows(resolved)
        return lambda fsdp: TraceData(rows=rows, batches=Batches(
            rows, seed=recipe.seed, rows_per_micro_batch=recipe.batch.micro_batch * fsdp,
            accumulation=recipe.batch.accumulation, data_config=recipe.data))
    # Files of rewards that are not there are found before a device is opened.
    reward_settings(resolved.loaded).recorded()
    return partial(prompt_data, resolved, prompts_of(resolved))


def prompt_data(resolved: ResolvedRun, prompts: PromptSet, fsdp: int) -> PromptData:
    """Prompts with the sizes of what is drawn of them. Raises `RequestError` for rows that make no whole groups."""
    recipe, algorithm = resolved.recipe, resolved.recipe.algorithm
    assert isinstance(algorithm, RewardAlgorithm)  # no other recipe has prompts
    recipe.require_whole_groups(fsdp)
    return PromptData(resolved=resolved, algorithm=algorithm, prompts=prompts, rewards=reward_settings(resolved.loaded),
                      shape=RolloutShape.of(recipe, algorithm, fsdp=fsdp, pad_id=resolved.tokenizer.pad_id))


def _rows(resolved: ResolvedRun) -> RowSet:
    """The proved rows of the traces; those of a large data set are kept between runs."""
    data, settings = resolved.data, (resolved.tokenizer, resolved.template, resolved.recipe.data)
    make = partial(build_rows, data.traces, *settings)
    # Traces that were cut are not those whose digest is the key of the cache.
    if len(data.traces) < MIN_CACHED_ROWS or not data.is_full:
        return make()
    return cached_rows(cache_directory() / "rows", cache_key(data.digests["traces"], *settings), make)
