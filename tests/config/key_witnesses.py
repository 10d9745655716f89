"""What a recipe decides, seen where it is decided: one function for each witness of `tools.key_effects`."""

import json
from collections.abc import Sequence
from contextlib import chdir, redirect_stderr
from dataclasses import asdict, replace
from io import StringIO
from pathlib import Path
from typing import Any

import numpy as np

import workings
from tests.engines.tiny import random_batch
from tests.objectives.numpy_functions import NUMPY
from tests.rollouts.making import PROMPTS, rollout, sample
from tests.runs.runs_helpers import lines_of
from workings.config.load import LoadedRecipe, load_recipe
from workings.data.batches import Position
from workings.engines.base import EngineRequest, StepResult
from workings.engines.registry import find_engine
from workings.errors import TrainingFailed
from workings.inputs.resolve import find_shape, resolve
from workings.objectives.policy_gradient import ADVANTAGE
from workings.objectives.registry import to_json
from workings.objectives.top_tokens import TopTokens
from workings.record.digest import file_digest
from workings.rollouts.rollout import Group, rollout_metrics
from workings.scoring.items import Item
from workings.scoring.rewards import CompletionToReward, shipped_reward, total
from workings.ways.parts.rollout_batch import RolloutShape, batch_of
from workings.ways.parts.rollout_experience import StallDetector
from workings.ways.parts.row_data import TraceData, read_rows
from workings.ways.parts.training_data import reward_settings

BASE = ("engine=torch", "device=cpu", "evaluation={}", "training.steps=4", "training.schedule=cosine",
        "data.buckets=auto")


def recipe(words: Sequence[str]) -> LoadedRecipe:
    """The shipped recipe `smoke-tiny` with these words; a later word for a key replaces an earlier one."""
    last: dict[str, str] = {}
    for word in (*BASE, *words):
        key, _, value = word.partition("=")
        # A word for a whole section takes back those for its keys.
        last = {name: x for name, x in last.items() if not name.startswith(f"{key}.") and name != key} | {key: value}
    if "training.epochs" in last or "epochs" in last.get("training", ""):
        last.pop("training.steps", None)
    return load_recipe("smoke-tiny", [f"{key}={value}" for key, value in last.items()])


def shape(words: Sequence[str]) -> Any:
    """The shape of the model."""
    return asdict(find_shape(recipe(words), vocabulary=345))


def rows(words: Sequence[str]) -> Any:
    """Digest of the rows, shapes, and the first batches of two epochs; or why there are none."""
    resolved = resolve(recipe(words), None, tensors=False)
    made = TraceData(recipe=resolved.recipe, rows=read_rows(resolved), devices=1)
    places = [Position(epoch, number) for epoch in (0, 1) for number in (0, 1)]
    digests = [made.batches.digest(made.batches.at(place)[0]) for place in places]
    return made.rows.digest, made.batches.shapes(), digests, made.steps


def rates(words: Sequence[str]) -> Any:
    """The learning rate of every step."""
    training = recipe(words).recipe.training
    return [training.rate_at(step) for step in range(1, training.steps + 1)]


def _opened(words: Sequence[str]) -> tuple[Any, Any]:
    loaded = recipe(words)
    request = EngineRequest.of(loaded.recipe, find_shape(loaded, vocabulary=61))
    return find_engine(loaded.recipe.engine).engine.open(request), request


def update(words: Sequence[str], folder: Path) -> Any:
    """Digests of weights and moments after three updates."""
    engine, request = _opened(words)
    state = engine.init(0)
    for seed in range(3):
        state, _ = engine.step(state, random_batch(request.shape, seed=seed, rows=2), 1e-2)
    folder.mkdir()
    engine.save(state, folder)
    return {file.name: file_digest(file) for file in folder.iterdir()}


def program(words: Sequence[str]) -> Any:
    """The compiled program of a step as text, or what its trace says of memory; and the answers' batch."""
    engine, request = _opened(words)
    batch = random_batch(request.shape, rows=4, length=24).with_loss_positions(20)
    told = engine.compiled_step(batch).as_text() if engine.name == "jax" else asdict(engine.inspect(batch))
    from workings.evaluation.settings import settings_of

    told = told if isinstance(told, str) else {key: value for key, value in told.items() if key != "seconds"}
    return told, settings_of(recipe(words).recipe)


def loss(words: Sequence[str]) -> Any:
    """The objective, and its value for the same log probabilities."""
    objective = recipe(words).recipe.algorithm.objective
    now = -np.linspace(0.1, 3, 12).reshape(4, 3)
    mask = np.array([[1, 1, 1], [1, 1, 0], [1, 0, 0], [1, 1, 1.0]])
    signals = {name: -np.linspace(3, 0.1 + number / 9, 12).reshape(4, 3)
               for number, name in enumerate(objective.signals)}
    signals |= {ADVANTAGE: np.resize([1.0, -1.0], (4, 3))} if ADVANTAGE in signals else {}
    # A teacher's loss is that of several tokens a position; which it needs follows from the names of its signals.
    value = 0.0 if isinstance(objective, TopTokens) else float(np.asarray(
        objective.terms(NUMPY, now * mask, mask, signals).total))
    return value, to_json(objective)["name"], sorted(objective.signals)


def rolled_out(words: Sequence[str]) -> Any:
    """Sizes, advantages and divisor of a rollout, and how it is sampled."""
    asked = recipe(words).recipe
    way = asked.algorithm
    size = RolloutShape.from_recipe(asked, way, devices=1, pad_id=0)
    group = Group(prompt=PROMPTS[0], epoch=0, samples=(sample([5, 6], reward=1.0, advantage=0.5), sample([7])))
    batch = batch_of(rollout(group), 0, size, way)
    return (size, way.group, way.objective.temperature, way.max_sampling_rounds, batch.divisor,
            None if batch.loss_positions is None else batch.loss_positions.shape)


def reward(words: Sequence[str]) -> Any:
    """The weighted reward of one completion."""
    settings = reward_settings(recipe(words))
    one = CompletionToReward(item=Item(id="x", prompt="7+5?", expected_answer="12"), text="12", tokens=range(9),
                             truncated=False)
    return total({name: shipped_reward(each, one, settings) for name, each in zip(
        settings.names, settings.rewards, strict=True)}, settings)


def stall(words: Sequence[str]) -> Any:
    """After how many rollouts of equal rewards, and at which disagreement of the sampler, a run is ended."""
    detector = StallDetector(recipe(words).recipe.algorithm)
    equal = rollout(Group(prompt=PROMPTS[0], epoch=0, samples=(sample([5], reward=0.5), sample([6], reward=0.5))))
    ended = []
    for number in range(1, 30):
        try:
            detector.check_rollout(equal, rollout_metrics(equal, ("answer",)))
        except TrainingFailed:
            ended.append(number)
    try:
        detector.check_update(1, {"mismatch": 0.01}, StepResult(loss=1, grad_norm=1, share_of_weights_changed=1))
    except TrainingFailed:
        ended.append(0)
    return ended


def run(words: Sequence[str], folder: Path) -> Any:
    """What a run of four updates leaves: names, metrics without times, checkpoints, samples, evaluations."""
    loaded = recipe(words)
    folder.mkdir()
    # Without `--out`, so that the run is called after its recipe.
    with chdir(folder), redirect_stderr(StringIO()):
        done = workings.train(loaded)
        done = replace(done, path=done.path.absolute())
    timed = ("seconds", "tokens_per_second", "memory", "peak", "time")
    metrics = [{key: value for key, value in line.items() if not any(word in key for word in timed)}
               for line in lines_of(done.path)]
    checkpoints = sorted(path.name for path in (done.path / "checkpoints").iterdir())
    samples = [file.read_text() for file in sorted((done.path / "train").glob("*.jsonl")) if "sample" in file.name]
    rules = [json.loads(file.read_text()).get("settings", file.read_text()) for file in sorted(
        (done.path / "eval").glob("*/eval_config.json"))] if (done.path / "eval").exists() else []
    predictions = [file.read_text() for file in sorted(done.path.glob("eval/*/predictions.jsonl"))]
    return (done.record.manifest.name, metrics, checkpoints, samples, rules, predictions, done.result.base is None)
