"""`reward check`: before a run, the rewards of the model's samples and of texts that exploit bad rewards (probes)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from statistics import fmean
from typing import Any

from workings.config.load import LoadedRecipe, load_recipe
from workings.data.batches import Position
from workings.engines.base import EngineRequest
from workings.engines.registry import find_engine
from workings.errors import RequestError
from workings.hardware.device import row_devices
from workings.inputs.resolve import ResolvedRun, resolve
from workings.record.number_text import percent, table_lines
from workings.record.progress import slow_operation
from workings.rollouts.prompts import PromptTurn
from workings.rollouts.rollout import Group, to_reward
from workings.runs.choices import with_choices
from workings.runs.probes import probes, right_answer
from workings.runs.reward_findings import PromptRewards, TextRewards, equal_reward_groups, refusals, warnings
from workings.scoring.items import Item
from workings.scoring.rewards import CompletionToReward, RewardProcess, RewardSettings, total
from workings.scoring.settings import ScoringSettings
from workings.scoring.worker_pool import ScoringProcess
from workings.ways.parts.training_data import PromptData, prompts_of, reward_settings

PROMPTS = 8
"""Default number of prompts."""
RIGHT_ANSWER = "right answer"
"""Name of the text that is compared with the probes."""


@dataclass(frozen=True, kw_only=True)
class RewardCheck:
    """Result of `reward check`."""

    prompts: tuple[PromptRewards, ...]
    """Rewards by prompt, in the order of training."""
    rewards: tuple[str, ...]
    """Names of the rewards, in the recipe's order."""
    max_new_tokens: int
    changed: tuple[str, ...]
    """A sentence for each reward that changed when computed again."""

    @property
    def refusals(self) -> tuple[str, ...]:
        """Reasons not to train with these rewards; may be empty."""
        return (*self.changed, *refusals(self.prompts))

    @property
    def warnings(self) -> tuple[str, ...]:
        """Sentences about what makes learning slow or impossible, each with a remedy."""
        return tuple(warnings(self.prompts, self.max_new_tokens))

    @property
    def samples(self) -> list[TextRewards]:
        """All samples of the model; empty without a model."""
        return [sample for prompt in self.prompts for sample in prompt.samples]

    def to_json(self) -> dict[str, Any]:
        """Keys of ``reward check --json``."""
        probe_names = dict.fromkeys(name for prompt in self.prompts for name in prompt.probes)
        tried = {name: [prompt for prompt in self.prompts if name in prompt.probes] for name in probe_names}
        values: dict[str, Any] = {
            "passed": not self.refusals, "refusals": list(self.refusals), "warnings": list(self.warnings),
            "prompts": len(self.prompts),
            "probes": {name: self._means([prompt.probes[name] for prompt in prompts])
                       | {"share_beaten": fmean([float(prompt.probe_wins(name)) for prompt in prompts])}
                       for name, prompts in tried.items()},
            "right_answer": self._means([prompt.right_answer for prompt in self.prompts])}
        if not self.samples:
            return values
        return values | {"samples": self._means(self.samples) | {
            "median": fmean([prompt.median_sample_reward() for prompt in self.prompts]), "count": len(self.samples),
            "groups_without_spread": equal_reward_groups(self.prompts) / len(self.prompts),
            "truncated": fmean([float(sample.truncated) for sample in self.samples]),
            "tokens": fmean([sample.tokens for sample in self.samples]), "max_new_tokens": self.max_new_tokens}}

    def text(self) -> str:
        """The check for the terminal: a row for each probe and the model's samples, and the verdict."""
        values = self.to_json()
        samples, count = values.get("samples"), values["prompts"]
        rows = [["", "reward", "right", "beats", *self.rewards]]
        rows += [_cells(name, probe, percent(probe["share_beaten"], 0)) for name, probe in values["probes"].items()]
        rows.append(_cells("(the correct answer)", values["right_answer"], ""))
        lines = [f"{count} prompts; beats: share of them where the probe earns more than the correct answer"]
        if samples:
            rows.append(_cells("(the model's samples)", samples, ""))
            lines = [f"{count} prompts; beats: share of them where the probe earns more than the median of the model's "
                     f"{samples['count'] // count} samples, which is {samples['median']:.2f} on average",
                     f"groups without spread {percent(samples['groups_without_spread'], 0)}; "
                     f"cut off {percent(samples['truncated'], 0)}; "
                     f"{samples['tokens']:.0f} of {samples['max_new_tokens']} tokens on average"]
        lines += [f"warning: {text}" for text in values["warnings"]]
        lines += [f"refused: {text}" for text in values["refusals"]] or ["no probe earns what it should not"]
        return "\n".join([*table_lines(rows), "", *lines])

    def _means(self, texts: Sequence[TextRewards]) -> dict[str, Any]:
        return {"reward": fmean([text.reward() for text in texts]),
                "right": fmean([float(text.right) for text in texts]),
                "rewards": {name: fmean([text.rewards[name] for text in texts]) for name in self.rewards}}


def _cells(name: str, earned: Mapping[str, Any], beats: str) -> list[str]:
    return [name, f"{earned['reward']:.2f}", percent(earned["right"], 0), beats,
            *(f"{value:.2f}" for value in earned["rewards"].values())]


def check_rewards(recipe: str | LoadedRecipe, overrides: Sequence[str] = (), *, prompts: int = PROMPTS,
                  model: bool = True) -> RewardCheck:
    """Tries a recipe's rewards on its first prompts. Nothing is trained and nothing is written.

    ``model``: whether to sample a group of completions of each prompt; if not, no engine is opened and no weight is
    read. Raises `RequestError`, and `RewardError` if a reward failed.
    """
    loaded = load_recipe(recipe, overrides)
    if not loaded.recipe.rewards:
        raise RequestError(f"algorithm.name: {loaded.recipe.algorithm.name} has no rewards to check",
                           "an algorithm that learns from rewards",
                           "algorithm='{name: grpo}' rewards='[{scorer: answer}]'")
    if loaded.recipe.environment is not None:
        raise RequestError(f"the rewards of environment: {loaded.recipe.environment.name} depend on whole episodes",
                           "a recipe whose rewards score single texts", "workings train RECIPE training.steps=2")
    if model:
        loaded = with_choices(loaded)
    settings = reward_settings(loaded)
    settings.recorded()  # finds missing files first
    with slow_operation("reading the data"):
        resolved = resolve(loaded, tensors=model)
        prompt_set = prompts_of(resolved)
    turns, _ = prompt_set.take(Position(0, 0), min(prompts, len(prompt_set.prompts)))
    written = _written_texts(resolved, settings, turns)
    with RewardProcess(settings) as rewarder:
        sampled = _sampled_texts(resolved, settings, rewarder, turns) if model else [[] for _ in turns]
        texts = [text for named, own in zip(written, sampled, strict=True) for text in (*named.values(), *own)]
        with slow_operation(f"rewarding {len(texts):,} texts"):
            values = rewarder.score(texts)
        with slow_operation(f"rewarding {len(texts):,} texts once more"):
            values_again = rewarder.score(texts)
    with slow_operation(f"rewarding {len(texts):,} texts in another process"), RewardProcess(settings) as other:
        values_elsewhere = other.score(texts)
    with slow_operation(f"judging {len(texts):,} texts"), ScoringProcess(ScoringSettings()) as judge:
        judgements = judge.judge([(text.item, text.text, text.truncated) for text in texts])
    # Before any conclusion: a mean would hide an infinite reward.
    for text_values in values:
        total(text_values, settings)  # raises if the sum is not a number
    # In the order of the texts: for each prompt the named texts, then the model's samples.
    rewards = iter([
        TextRewards(rewards={name: settings.weights[name] * value for name, value in text_values.items()},
                    right=judgement.score == 1, tokens=len(text.tokens), truncated=text.truncated)
        for text, text_values, judgement in zip(texts, values, judgements, strict=True)])
    checked = []
    for turn, named, own in zip(turns, written, sampled, strict=True):
        named_rewards = {name: next(rewards) for name in named}
        checked.append(PromptRewards(
            prompt=turn.prompt.item.id, right_answer=named_rewards.pop(RIGHT_ANSWER), probes=named_rewards,
            samples=tuple(islice(rewards, len(own)))))
    return RewardCheck(prompts=tuple(checked), rewards=settings.names, max_new_tokens=settings.max_new_tokens,
                       changed=tuple(_changed(settings, values, [values_again, values_elsewhere])))


def _written_texts(resolved: ResolvedRun, settings: RewardSettings,
                   turns: Sequence[PromptTurn]) -> list[dict[str, CompletionToReward]]:
    """The correct answer and the probes of each prompt, by name."""
    item_ids = {turn.prompt.item.id for turn in turns}
    steps_by_id = {trace.id: "\n".join(trace.steps) for trace in resolved.data.traces
                   if trace.id in item_ids and any(step.strip() for step in trace.steps)}

    def cut(item: Item, text: str) -> CompletionToReward:
        """The text as a completion, cut to the length of completions like a sample."""
        tokens = resolved.tokenizer.encode(text)
        if len(tokens) <= settings.max_new_tokens:
            return CompletionToReward(item=item, text=text, tokens=tokens, truncated=False)
        kept = tokens[:settings.max_new_tokens]
        return CompletionToReward(item=item, text=resolved.tokenizer.decode(kept), tokens=kept, truncated=True)

    written = []
    for item in (turn.prompt.item for turn in turns):
        steps = steps_by_id.get(item.id)
        texts = {RIGHT_ANSWER: right_answer(item, settings.form, steps), **probes(item, settings.form, steps)}
        written.append({name: cut(item, text) for name, text in texts.items()})
    return written


def _sampled_texts(resolved: ResolvedRun, settings: RewardSettings, rewarder: RewardProcess,
                   turns: Sequence[PromptTurn]) -> list[list[CompletionToReward]]:
    """One group of the model's completions of each prompt, as for the first update."""
    recipe = resolved.recipe
    with slow_operation(f"opening the model with the engine {recipe.engine}"):
        engine = find_engine(recipe.engine).engine.open(
            EngineRequest.of(recipe, resolved.shape, weights=resolved.weights.directory))
        data = PromptData(resolved=resolved, prompts=prompts_of(resolved), rewards=settings,
                          devices=row_devices(engine.describe().mesh))
        sampler = data.rollout_sampler(engine, rewarder)
        state = resolved.initial_state(engine, recipe.seed, trainable=False)
    groups: list[Group] = []
    with slow_operation(f"sampling completions of {len(turns):,} prompts") as progress:
        # The batch size of training, because more might not fit.
        for start in range(0, len(turns), sampler.groups):
            groups += sampler.sample_groups(state, turns[start:start + sampler.groups], 1)
            progress.reaches(len(groups), len(turns))
    return [[to_reward(group.prompt, sample, resolved.tokenizer) for sample in group.samples] for group in groups]


def _changed(settings: RewardSettings, values: Sequence[Mapping[str, float]],
             again: Sequence[Sequence[Mapping[str, float]]]) -> list[str]:
    """A sentence for each reward whose ``values`` differ from those of a later call, which ``again`` lists."""
    changed = []
    for name in settings.names:
        pairs = [(first[name], then[name]) for others in again for first, then in zip(values, others, strict=True)
                 if first[name] != then[name]]
        if pairs:
            first_value, later_value = pairs[0]
            changed.append(f"the reward {name} changes when computed again for the same completions (first "
                           f"{first_value:g}, then {later_value:g}): it cannot be verified")
    return changed
