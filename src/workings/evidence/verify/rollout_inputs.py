"""Rollouts of a recorded run, and the inputs that decide them; only one rollout is in memory at a time."""

import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from workings.config.load import check_recipe
from workings.config.recipe import Recipe
from workings.errors import RecordError
from workings.evidence.verify.record import Unit, computed_once
from workings.hardware.device import row_devices
from workings.models.chat import ChatTemplate
from workings.models.tokenizer import Tokenizer
from workings.record.canonical import loads
from workings.record.layout import CONFIG, PROMPTS, ROLLOUTS, TOKENIZER, rollout_file, rollout_step
from workings.record.storage import parsed_bytes
from workings.rollouts.prompts import PromptSet, read_recorded_prompts
from workings.rollouts.rollout import Rollout
from workings.rollouts.rollout_json import TOKEN_BYTES, from_json
from workings.scoring.rewards import RewardSettings
from workings.ways.parts.rollout_batch import RolloutShape, rollout_way
from workings.ways.parts.rollout_way import RolloutWay


@dataclass(frozen=True, kw_only=True)
class RolloutInputs:
    """Inputs that decide the rollouts of a run."""

    recipe: Recipe
    algorithm: RolloutWay
    prompts: PromptSet
    shape: RolloutShape
    settings: RewardSettings | None
    """None where completions had no rewards."""
    steps: tuple[int, ...]
    """First updates of the recorded rollouts, ascending."""

    @property
    def reward_names(self) -> tuple[str, ...]:
        """Names of the rewards in their order."""
        return () if self.settings is None else self.settings.names


@computed_once("rollout inputs")
def rollout_inputs_of(unit: Unit) -> RolloutInputs:
    """Inputs of a run's rollouts, cached. Raises `RecordError`."""
    recipe = check_recipe(unit.manifest.config, CONFIG)
    algorithm = rollout_way(recipe)
    settings = RewardSettings(rewards=recipe.rewards, form=recipe.data.reasoning,
                              max_new_tokens=algorithm.most_written(recipe)) if recipe.rewards else None
    devices = row_devices(unit.manifest.device.mesh)
    prompt_set = read_recorded_prompts(unit.lines(PROMPTS), unit.manifest.seed)
    steps = []
    for name in unit.files:
        if name.startswith(f"{ROLLOUTS}/"):
            step = rollout_step(name)
            if step is None or name != rollout_file(step):
                raise RecordError(f"{unit.tree_path(name)}: not the name of a rollout")
            steps.append(step)
    # No digest covers padding, so any id will do for it.
    shape = RolloutShape.from_recipe(recipe, algorithm, devices=devices, pad_id=0)
    return RolloutInputs(recipe=recipe, algorithm=algorithm, prompts=prompt_set, settings=settings, shape=shape,
                         steps=tuple(sorted(steps)))


def rollouts_of(unit: Unit) -> Iterator[Rollout]:
    """The rollouts of a run in their order, read one by one. Raises `RecordError`."""
    inputs = rollout_inputs_of(unit)
    for step in inputs.steps:
        name = rollout_file(step)
        data = unit.read(name)
        # As integers tokens take far more memory than in their file; this rollout is freed before the next.
        unit.tree.cache.check_transient(parsed_bytes(data))
        values = loads(data)
        if type(values["step"]) is not int or values["step"] != step:
            raise RecordError(f"{unit.tree_path(name)}: not the rollout of the step in its name")
        unit.tree.cache.check_transient(TOKEN_BYTES * sum(map(abs, values["lengths"])))
        rollout = from_json(values, inputs.prompts.by_id)
        if any(set(sample.rewards) != {*inputs.reward_names} for _, sample in rollout.all_samples):
            raise RecordError(f"{unit.tree_path(name)}: other rewards than the recipe's")
        if any(bool(sample.turns) != (inputs.recipe.environment is not None) for _, sample in rollout.all_samples):
            raise RecordError(f"{unit.tree_path(name)}: episodes are there, or missing, against the recipe")
        longest = inputs.shape.buckets[-1]
        if any(len(prompt.tokens) + len(sample.tokens_with_stop) > longest for prompt, sample in rollout.all_samples):
            raise RecordError(f"{unit.tree_path(name)}: a row longer than the recipe's longest")
        yield rollout


@computed_once("chat template")
def template_of(unit: Unit) -> ChatTemplate:
    """The run's chat template with the recorded tokenizer, cached. Raises `RecordError`."""
    with tempfile.TemporaryDirectory(prefix="workings-verify-") as folder:
        for name in (name for name in unit.files if name.startswith(f"{TOKENIZER}/")):
            (Path(folder) / name.rpartition("/")[2]).write_bytes(unit.read(name))
        tokenizer = Tokenizer.load(Path(folder))
    if tokenizer.digest != unit.manifest.data_digests.get("tokenizer"):
        raise RecordError(f"{TOKENIZER}: not the tokenizer that the manifest names")
    data = unit.section("data")
    return ChatTemplate.for_config(str(data.get("template")), tokenizer, str(data.get("reasoning")))
