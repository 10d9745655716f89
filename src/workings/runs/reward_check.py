"""`reward check`: before a run, what its rewards pay for: probes beside the model's own samples.

The probes are texts that a good reward does not prefer (`workings.scoring.probes`), cut off where a completion is. The
samples are those that the first update would learn from. Every reward is computed again, because one that changes
between two calls cannot be verified.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from workings.config.algorithms.base import mean
from workings.config.load import LoadedRecipe, load_recipe
from workings.data.batches import Position
from workings.engines.base import EngineRequest
from workings.engines.registry import find_engine
from workings.errors import RequestError
from workings.models.tokenizer import Tokenizer
from workings.record.waiting import waiting
from workings.rollouts.prompts import PromptTurn
from workings.rollouts.rollout import Group, to_reward
from workings.runs.resolve import ResolvedRun, resolve
from workings.runs.reward_findings import Earned, Tried, refusals, warnings, without_spread
from workings.runs.select_engine import with_engine
from workings.runs.training_data import PromptData, prompts_of, read_training_data, reward_settings
from workings.scoring.items import Item
from workings.scoring.probes import probes, right_answer
from workings.scoring.process import ScoringProcess
from workings.scoring.rewards import CompletionToReward, RewardProcess, RewardSettings, total
from workings.scoring.settings import ScoringSettings

PROMPTS = 8
"""Prompts that are tried where nobody says how many."""


@dataclass(frozen=True, kw_only=True)
class RewardCheck:
    """What a recipe's rewards pay for."""

    tried: tuple[Tried, ...]
    """A prompt each, in the order in which training takes them."""
    rewards: tuple[str, ...]
    """Names, in the recipe's order."""
    max_new_tokens: int
    changed: tuple[str, ...]
    """A sentence for each reward that was not the same when it was computed again."""

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why nothing should be learned from these rewards; empty where nothing speaks against it."""
        return (*self.changed, *refusals(self.tried))

    @property
    def warnings(self) -> tuple[str, ...]:
        """What makes learning slow or impossible, each with what to do."""
        return tuple(warnings(self.tried, self.max_new_tokens))

    @property
    def probes(self) -> tuple[str, ...]:
        """Names of the probes; one that needs worked steps is there where a prompt has them."""
        return tuple(dict.fromkeys(name for each in self.tried for name in each.probes))

    def of_probe(self, name: str) -> list[Tried]:
        """The prompts that have a probe."""
        return [each for each in self.tried if name in each.probes]

    @property
    def samples(self) -> list[Earned]:
        """All of the model's samples; empty where no model was asked."""
        return [sample for each in self.tried for sample in each.samples]

    def as_json(self) -> dict[str, Any]:
        """Keys of ``reward check --json``."""
        values: dict[str, Any] = {
            "passed": not self.refusals, "refusals": list(self.refusals), "warnings": list(self.warnings),
            "prompts": len(self.tried),
            "probes": {name: self._means([each.probes[name] for each in self.of_probe(name)])
                       | {"share_beaten": mean([float(each.beaten(name)) for each in self.of_probe(name)])}
                       for name in self.probes},
            "right_answer": self._means([each.right_answer for each in self.tried])}
        if not self.samples:
            return values
        return values | {"samples": self._means(self.samples) | {
            "median": mean([each.middle() for each in self.tried]), "count": len(self.samples),
            "groups_without_spread": without_spread(self.tried) / len(self.tried),
            "truncated": mean([float(sample.truncated) for sample in self.samples]),
            "tokens": mean([sample.tokens for sample in self.samples]), "max_new_tokens": self.max_new_tokens}}

    def _means(self, earned: Sequence[Earned]) -> dict[str, Any]:
        return {"reward": mean([each.reward for each in earned]), "right": mean([float(each.right) for each in earned]),
                "rewards": {name: mean([each.rewards[name] for each in earned]) for name in self.rewards}}


def check_rewards(recipe: str | LoadedRecipe, overrides: Sequence[str] = (), *, prompts: int = PROMPTS,
                  model: bool = True) -> RewardCheck:
    """Try a recipe's rewards on its first prompts. Nothing is trained and nothing is written.

    Args:
        recipe: a file, a shipped recipe's name, or one that is loaded already.
        overrides: ``key=value`` words.
        prompts: how many; all where there are fewer.
        model: draw one group of completions of each; without, no engine is opened and no weight is read.

    Raises:
        RequestError: what was asked for is wrong, or the recipe does not learn from rewards.
        RewardError: a reward failed, or gave back something else than numbers.
    """
    loaded = load_recipe(recipe, overrides)
    if not loaded.recipe.learns_from_rewards:
        raise RequestError(f"algorithm.name: {loaded.recipe.algorithm.name}, which has no rewards to check",
                           "an algorithm that learns from rewards",
                           "algorithm='{name: grpo}' rewards='[{scorer: answer}]'")
    if model:
        loaded = with_engine(loaded)
    settings = reward_settings(loaded)
    settings.recorded()  # files that are not there are found before anything else
    with waiting("reading the data"):
        resolved = resolve(loaded, tensors=model)
        known = prompts_of(resolved)
    turns, _ = known.take(Position(0, 0), min(prompts, len(known.prompts)))
    with RewardProcess(settings) as rewarder:
        groups = _sampled_groups(resolved, rewarder, turns) if model else []
        texts = _texts(resolved, settings, turns, groups)
        with waiting(f"rewarding {len(texts):,} texts"):
            values = rewarder.score([text.sample for text in texts])
        with waiting(f"rewarding {len(texts):,} texts once more"):
            again = [rewarder.score([text.sample for text in texts])]
    # In another process as well: there texts have other hashes, and counters begin anew.
    with waiting(f"rewarding {len(texts):,} texts in another process"), RewardProcess(settings) as other:
        again.append(other.score([text.sample for text in texts]))
    with waiting(f"judging {len(texts):,} texts"), ScoringProcess(ScoringSettings()) as judge:
        judged = judge.judge([(text.sample.item, text.sample.text, text.sample.truncated) for text in texts])
    for each in values:
        total(each, settings)  # raises where the sum is no number
    weights = settings.weights
    earned = [Earned(rewards={name: weights[name] * value for name, value in each.items()}, right=judgement.score == 1,
                     tokens=len(text.sample.tokens), truncated=text.sample.truncated)
              for text, each, judgement in zip(texts, values, judged, strict=True)]
    return RewardCheck(tried=_tried(turns, texts, earned), rewards=settings.names,
                       max_new_tokens=settings.max_new_tokens, changed=tuple(_changed(settings, values, again)))


@dataclass(frozen=True, kw_only=True)
class _Text:
    """One text to be rewarded, and which one it is."""

    place: int
    """Number of its prompt."""
    name: str
    """Of the probe; `right answer` or `sample`."""
    sample: CompletionToReward


def _sampled_groups(resolved: ResolvedRun, rewarder: RewardProcess, turns: Sequence[PromptTurn]) -> list[Group]:
    """One group of completions of each prompt, as for the first update."""
    recipe = resolved.recipe
    with waiting(f"opening the model with the engine {recipe.engine}"):
        engine = find_engine(recipe.engine).engine.open(
            EngineRequest.of(recipe, resolved.shape, weights=resolved.weights.directory))
        data = read_training_data(resolved)(engine.describe().mesh["fsdp"])
        assert isinstance(data, PromptData)  # the recipe has rewards
        sampler = data.rollout_sampler(engine, rewarder)
        state = resolved.initial_state(engine, recipe.seed, trainable=False)
    groups: list[Group] = []
    with waiting(f"drawing completions of {len(turns):,} prompts") as progress:
        # As many at a time as in training: more might not fit.
        for start in range(0, len(turns), sampler.groups):
            groups += sampler.sample_groups(state, turns[start:start + sampler.groups], 1)
            progress.reaches(len(groups), len(turns))
    return groups


def _texts(resolved: ResolvedRun, settings: RewardSettings, turns: Sequence[PromptTurn],
           groups: Sequence[Group]) -> list[_Text]:
    """Of each prompt the right answer, its probes and its samples."""
    wanted = {turn.prompt.item.id for turn in turns}
    worked = {trace.id: "\n".join(trace.steps) for trace in resolved.data.traces
              if trace.id in wanted and any(step.strip() for step in trace.steps)}
    tokenizer, texts = resolved.tokenizer, list[_Text]()
    for number, turn in enumerate(turns):
        item = turn.prompt.item
        steps = worked.get(item.id)
        written = {"right answer": right_answer(item, settings.form, steps), **probes(item, settings.form, steps)}
        texts += [_Text(place=number, name=name, sample=_sample(item, text, tokenizer, settings.max_new_tokens))
                  for name, text in written.items()]
        texts += [_Text(place=number, name="sample", sample=to_reward(turn.prompt, drawn.completion, tokenizer))
                  for group in groups[number:number + 1] for drawn in group.samples]
    return texts


def _sample(item: Item, text: str, tokenizer: Tokenizer, most: int) -> CompletionToReward:
    """A text as a completion: cut off where a longer one would be."""
    tokens = tokenizer.encode(text)
    if len(tokens) <= most:
        return CompletionToReward(item=item, text=text, tokens=tokens, truncated=False)
    return CompletionToReward(item=item, text=tokenizer.decode(tokens[:most]), tokens=tokens[:most], truncated=True)


def _tried(turns: Sequence[PromptTurn], texts: Sequence[_Text], earned: Sequence[Earned]) -> tuple[Tried, ...]:
    tried = []
    for number, turn in enumerate(turns):
        own = [(text.name, each) for text, each in zip(texts, earned, strict=True) if text.place == number]
        by_name = {name: each for name, each in own if name != "sample"}
        tried.append(Tried(prompt=turn.prompt.item.id, right_answer=by_name.pop("right answer"), probes=by_name,
                           samples=tuple(each for name, each in own if name == "sample")))
    return tuple(tried)


def _changed(settings: RewardSettings, values: Sequence[Mapping[str, float]],
             again: Sequence[Sequence[Mapping[str, float]]]) -> list[str]:
    """A sentence for each reward whose values differ between calls."""
    changed = []
    for name in settings.names:
        pairs = [(first[name], second[name]) for others in again for first, second in zip(values, others, strict=True)
                 if first[name] != second[name]]
        if pairs:
            changed.append(f"the reward {name} is not the same when the same completions are rewarded again (first "
                           f"{pairs[0][0]:g}, then {pairs[0][1]:g}): nobody could verify it")
    return changed
