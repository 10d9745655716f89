"""A sealed run that learned from rewards, consistent to the last number: sampled by the product, by an engine of texts.

The engine answers by the seed of each sample: right, wrong, without an end, or right in another form. Steps change
nothing; their lines say what the rollouts and the objective would.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np

from tests.objectives.numpy_functions import NUMPY
from tests.record import synthetic
from workings.config.load import check_recipe
from workings.config.recipe import Recipe
from workings.data.batches import Position
from workings.data.generators import addition
from workings.engines.base import Completion, StepResult
from workings.environments.process import EnvironmentProcess
from workings.environments.settings import EnvironmentSettings
from workings.models.batch import Batch
from workings.record import attempts
from workings.record.digest import json_digest
from workings.record.layout import EPISODES, PROMPTS, REWARDS
from workings.record.writer import RunWriter
from workings.rollouts import rollout_json
from workings.rollouts.prompts import PromptSet, build_prompts
from workings.scoring.items import item_from_json
from workings.scoring.rewards import RewardProcess, RewardSettings
from workings.ways.parts.rollout_batch import RolloutShape
from workings.ways.parts.rollout_experience import RolloutExperience, RolloutSampler, StallDetector
from workings.ways.parts.training_data import episode_rules

STEPS = 4
NEW_TOKENS = 48
RECIPE: dict[str, Any] = {
    "name": "tiny", "seed": 7, "device": "cpu", "model": {"source": "scratch", "shape": "gemma-2b"},
    "data": {"traces": "train.jsonl", "template": "gemma", "reasoning": "tags", "max_length": 96, "buckets": [96]},
    "algorithm": {"name": "dapo", "group": 4, "max_new_tokens": NEW_TOKENS, "updates": 2, "max_resamples": 3},
    "rewards": [{"scorer": "answer"}, {"scorer": "overlong", "buffer": 8, "weight": 0.5}],
    "batch": {"micro_batch": 2, "accumulation": 2}, "optimizer": {"name": "adamw"},
    "training": {"steps": STEPS, "learning_rate": 0.01, "schedule": "constant"}}


class Texts:
    """Draws what the seed of a sample says; its log probabilities are those of the step but for rounding."""

    name = "jax"

    def __init__(self, prompts: PromptSet) -> None:
        self.answers = {prompt.tokens: prompt.item.expected_answer for prompt in prompts.prompts}

    def sample(self, state: Any, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[Completion]:
        """One completion a seed."""
        del state, temperature
        found = []
        for prompt, seed in zip(prompts, seeds, strict=True):
            tokens = synthetic.tokenizer().encode(self.text(prompt, seed))[:max_new_tokens]
            cut = len(tokens) == max_new_tokens
            found.append(Completion(
                tokens=tokens, finish_reason="length" if cut else "stop", stop_token=None if cut else stop_ids[0],
                log_probs=[-0.25 - (seed + place) % 8 / 16 for place in range(len(tokens) + (not cut))]))
        return found

    def text(self, prompt: Sequence[int], seed: int) -> str:
        """What a seed says. Of some prompts all completions are right: their group teaches nothing and is left out."""
        right = self.answers[tuple(prompt)]
        return [f"<reasoning>so it is</reasoning><answer>{right}</answer>", "<answer>1</answer>",
                f"<answer>{right}</answer>", "7+" * 60][0 if sum(prompt) % 2 else seed % 4]

    def log_probs(self, state: Any, batch: Batch) -> np.ndarray:
        """What was sampled with, a rounding off."""
        del state
        return (batch.signals["behavior_log_prob"] * np.float32(1 + 1e-6)).astype(np.float32)


class Guesses(Texts):
    """Guesses by its seed, and sometimes writes no number or does not end."""

    def text(self, prompt: Sequence[int], seed: int) -> str:
        """What a seed says."""
        del prompt
        return "what is it then" if seed % 9 == 8 else str(1 + seed % 5)


class Elsewhere(Texts):
    """Another program that samples, with adapters that are the number of the next update."""

    def __init__(self, prompts: PromptSet) -> None:
        super().__init__(prompts)
        self.loaded = 0

    @property
    def tag(self) -> dict[str, str]:
        """What was loaded last."""
        return {"name": "vllm", "version": "0.32.0", "adapter": f"{self.loaded:064d}"}

    def load(self, state: Any) -> None:
        """Take over a state."""
        self.loaded = state

    def sample(self, state: Any, *given: Any, **more: Any) -> list[Completion]:
        """With a state, or with what was loaded."""
        if state is not None:
            self.load(state)
        return super().sample(state, *given, **more)


class Later(Elsewhere):
    """The trained weights are an update ahead of those that sampled: every token is a little likelier."""

    def load(self, state: Any) -> None:
        """Take over a state; not before the last update, after which nothing is sampled."""
        assert state < STEPS
        super().load(state)

    def log_probs(self, state: Any, batch: Batch) -> np.ndarray:
        """What was sampled with, and what the update changed."""
        return np.minimum(super().log_probs(state, batch) + np.float32(0.03 if state > 1 else 0), 0)


EPISODES_OF: dict[str, Any] = {
    "data": {"traces": "environment", "template": "gemma", "reasoning": "tags", "max_length": 160, "buckets": [160]},
    "algorithm": {"name": "grpo", "group": 4, "max_new_tokens": 4, "updates": 2},
    "rewards": [{"scorer": "environment"}],
    "environment": {"name": "guess-number", "turns": 3, "tasks": 6, "options": {"most": 4}}}
"""What a recipe of episodes of several turns changes."""


def recipe(**changes: Any) -> Recipe:
    """The recipe, with sections of other values."""
    return check_recipe({**RECIPE, **changes}, "the tests' recipe")


def rewarded_run(final: Path, engine_of: Callable[[PromptSet], Any] = Texts, **changes: Any) -> Path:
    """A sealed run of four updates from two rollouts."""
    asked = recipe(**changes)
    player = None if asked.environment is None else EnvironmentProcess(EnvironmentSettings(config=asked.environment))
    config = asked.model_dump(mode="json")
    items = [item_from_json({"id": trace.id, "prompt": trace.prompt, "expected_answer": trace.answer})
             for trace in addition.make(9, synthetic.ITEMS, 7)[0]]
    algorithm: Any = asked.algorithm
    digests = {"traces": synthetic.digest_of("traces")}
    if player is not None and asked.environment is not None:
        rows = player.tasks(7, asked.environment.tasks)
        digests = {"traces": json_digest(rows),
                   "environment": json_digest(EnvironmentSettings(config=asked.environment).recorded())}
        items = [item_from_json(prompt) for prompt in player.prompts(7, rows)]
    prompts = build_prompts(items, synthetic.template(), seed=7, drop=False,
                            longest=asked.data.max_length - algorithm.max_new_tokens)
    settings = RewardSettings(rewards=asked.rewards, form="tags", max_new_tokens=algorithm.most_written(asked),
                              base=final.parent)
    digests |= {"tokenizer": synthetic.tokenizer().digest, "prompts": prompts.digest,
                "rewards": json_digest(settings.recorded())}
    writer = RunWriter.create(final)
    synthetic.begin(writer)
    attempts.append(final.parent, {"run": "tiny", "recipe": "tiny", "config_digest": json_digest(config),
                                   "resume": False})
    writer.path("data/rows.jsonl").unlink()
    writer.write_json("config/resolved.json", config)
    writer.write_json("data/digests.json", digests)
    writer.write_json(REWARDS, settings.recorded())
    writer.write_cleaned(PROMPTS, prompts.index_bytes)
    if asked.environment is not None:
        writer.write_json(EPISODES, EnvironmentSettings(config=asked.environment).recorded())
    engine = engine_of(prompts)
    with (nullcontext() if player is None else player, RewardProcess(settings) as rewarder,
          ThreadPoolExecutor(1) as thread):
        experience = RolloutExperience(
            RolloutSampler(
                sampler=engine, engine=engine, prompts=prompts, algorithm=algorithm, rewarder=rewarder,
                reward_settings=settings,
                shape=RolloutShape.from_recipe(asked, algorithm, devices=1, pad_id=0), template=synthetic.template(),
                player=player, rules=episode_rules(asked), seed=7,
                ahead=asked.sampler is not None and asked.sampler.ahead),
            load_rollout=lambda step: None,
            save_rollout=lambda rollout: writer.write_rollout(rollout.step, rollout_json.to_json(rollout)),
            stall_detector=StallDetector.from_lines(algorithm, []), last_step=STEPS)
        position = Position()
        for step in range(1, STEPS + 1):
            prepared = experience.next_batch(step, position, step)
            experience.prefetch(prepared.after, thread)
            log_probs = engine.log_probs(step, prepared.batch)
            terms = algorithm.objective.terms(NUMPY, log_probs, prepared.batch.loss_mask, prepared.batch.signals)
            result = StepResult(loss=float(terms.total.sum() / prepared.batch.divisor), grad_norm=0.25,
                                share_of_weights_changed=1.0, log_probs=log_probs,
                                metrics={name: float(x / count) for name, (x, count) in terms.metrics.items()})
            more = experience.after_step(step, prepared, result)
            position = prepared.after
            writer.metric({
                "step": step, "loss": result.loss, "learning_rate": 0.01, "grad_norm": result.grad_norm,
                "share_of_weights_changed": 1.0, "tokens": prepared.batch.real_tokens,
                "supervised_tokens": prepared.batch.supervised_tokens, "batch_digest": prepared.digest,
                "seconds": 0.011, "memory_bytes": 123_456_789, "memory_source": "growth of the peak resident set",
                **result.metrics, **prepared.metrics, **more,
                # Less than the step took, on any machine.
                **({"drawing_seconds": 0.008} if "drawing_seconds" in prepared.metrics else {})})
            if step % 2 == 0:
                synthetic.save(writer, step)
    synthetic.finish(writer)
    return final
