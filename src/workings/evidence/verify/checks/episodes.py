"""Levels 1 and 2: episodes of a run with an environment, played again without weights.

The environment is this version's, or that of an installed library in the recorded version. No user's class is run.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import accumulate, chain, zip_longest

from workings.config.recipe import MADE_BY_ENVIRONMENT
from workings.environments.base import ROW_KEY
from workings.environments.process import EnvironmentProcess
from workings.environments.settings import EnvironmentSettings
from workings.errors import RecordError
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import Found, check, contradictions, not_checked
from workings.evidence.verify.result import CheckFinding, NotChecked
from workings.evidence.verify.rollout_inputs import rollout_inputs_of, rollouts_of, template_of
from workings.models.chat import ChatTemplate
from workings.record.digest import json_digest
from workings.record.layout import EPISODES
from workings.rollouts.episodes import EpisodeRules, beginning, play
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import Sample
from workings.scoring.items import item_from_json
from workings.ways.parts.training_data import episode_rules

CALL_SECONDS = 20.0
"""Time limit for a turn of an episode that is played again, in seconds."""
MAX_TASKS = 100_000
"""Maximum number of tasks to regenerate."""


def has_environment(unit: Unit) -> bool:
    """Whether the recipe of a run has an environment."""
    return unit.recipe is not None and unit.recipe.environment is not None


@check("consistency.environment", when=has_environment)
def environment(unit: Unit) -> Found:
    """Name, options and turns against the recipe; the digest against the manifest."""
    settings, recorded = _settings(unit), unit.json_object(EPISODES)
    if recorded.keys() != {"name", "options", "turns", "version"}:
        yield f"{EPISODES} has other keys than an environment"
    expected = {"name": settings.name, "options": dict(settings.config.options), "turns": settings.config.turns}
    yield from contradictions(EPISODES, recorded, expected, "the recipe says")
    if unit.manifest.data_digests.get("environment") != json_digest(recorded):
        yield f"{EPISODES} has another digest than the manifest says"
    return f"{settings.name}, {settings.config.turns} turns at most"


@check("recompute.episodes", when=has_environment)
def episodes(unit: Unit) -> Found:
    """Tasks, replies, rewards of turns, ends, against the environment; which tokens are learned, against the turns."""
    settings = _settings(unit)
    recorded = str(unit.json_object(EPISODES).get("version"))
    if settings.config.file:
        raise NotChecked(f"the environment {settings.name} is code from elsewhere, which is not run; its replies are "
                         "as recorded")
    if settings.config.server:
        raise NotChecked("a server played its episodes, which is not asked again; its replies are as recorded")
    if settings.version != recorded:
        raise NotChecked(f"environment {settings.name}: version {recorded[:100]!r} there, {settings.version!r} here")
    counts = Counter[str]()
    yield from _play_again(unit, settings, counts)
    return f"{counts['episodes']:,} episodes with {counts['turns']:,} turns"


def _settings(unit: Unit) -> EnvironmentSettings:
    config = None if unit.recipe is None else unit.recipe.environment
    assert config is not None  # `has_environment`
    # Limits of this verification; those of the record do not count.
    return EnvironmentSettings(config=config.model_copy(update={"seconds": CALL_SECONDS, "memory_gib": 4.0}))


def _play_again(unit: Unit, settings: EnvironmentSettings, counts: Counter[str]) -> Iterator[str | CheckFinding]:
    """Problems of all rollouts, in one pass. Adds to ``counts`` the numbers of `episodes` and `turns` played again."""
    inputs, template, clock = rollout_inputs_of(unit), template_of(unit), unit.tree.scoring
    rules = episode_rules(inputs.recipe)
    assert rules is not None  # `has_environment`
    with EnvironmentProcess(settings) as process:
        with clock.measured(process, len(inputs.prompts.prompts)):
            problems = _task_problems(unit, process, inputs.prompts.prompts)
        yield from problems
        recorded = 0
        for rollout in rollouts_of(unit):
            recorded += len(rollout.all_samples)
            for prompt, sample in chain.from_iterable(clock.chunks(process, rollout.all_samples)):
                yield from (f"rollout of step {rollout.step}, {prompt.item.id[:60]!r}: {problem}"
                            for problem in _episode_problems(process, template, rules, prompt, sample))
                counts.update(episodes=1, turns=len(sample.turns))
        if counts["episodes"] < recorded:
            yield not_checked(f"{counts['episodes']:,} episodes were played again, and no more: {clock.reason_over}")


def _task_problems(unit: Unit, process: EnvironmentProcess, prompts: Sequence[Prompt]) -> list[str]:
    """Problems of the prompts: seeds, first observations, and generated tasks."""
    recipe, seed = rollout_inputs_of(unit).recipe, unit.manifest.seed
    rows = [dict(beginning(prompt)[1]) for prompt in prompts]
    problems = []
    if recipe.environment is not None and recipe.data.traces == MADE_BY_ENVIRONMENT:
        if recipe.environment.tasks > MAX_TASKS:
            raise RecordError(f"{recipe.environment.tasks:,} tasks, but at most {MAX_TASKS:,} are regenerated")
        made = process.tasks(seed, recipe.environment.tasks)
        if unit.manifest.data_digests.get("traces") != json_digest(made):
            problems.append("the digest of its tasks is not that of those which the environment makes")
        by_id = {row["id"]: row for row in made}
        problems += [f"task {str(row.get('id'))[:60]!r} is not one that the environment makes" for row in rows
                     if by_id.get(row.get("id")) != row]
    # The id decides the seed of a task, so a prompt with another id would begin it with another seed.
    problems += [f"prompt {prompt.item.id[:60]!r} belongs to the task {str(row.get('id'))[:60]!r}"
                 for prompt, row in zip(prompts, rows, strict=True) if row.get("id") != prompt.item.id]
    if problems:
        return problems
    again = [item_from_json(prompt) for prompt in process.prompts(seed, rows)]
    return [f"task {prompt.item.id[:60]!r} does not begin as its seed and its {ROW_KEY} require"
            for prompt, item in zip(prompts, again, strict=True) if prompt.item != item]


def _episode_problems(process: EnvironmentProcess, template: ChatTemplate, rules: EpisodeRules, prompt: Prompt,
                      sample: Sample) -> Iterator[str]:
    """What differs if the episode is played again, with the recorded turns in place of the model's."""
    tokens, log_probs = sample.tokens_with_stop, sample.completion.log_probs
    starts = accumulate((turn.written + turn.observed for turn in sample.turns), initial=0)
    written = iter([sample.completion.of(tokens[start:start + turn.written], template.stop_ids,
                                         log_probs[start:start + turn.written])
                    for start, turn in zip(starts, sample.turns, strict=False)])
    try:
        # An episode that asks for more turns than were recorded meets the end of `written`.
        [again] = play([prompt], [sample.seed], player=process, template=template, rules=rules,
                       write=lambda prompts, seeds: [next(written)])
    except StopIteration:
        yield "it ends here, but would continue"
        return
    turns = zip_longest(sample.turns, again.turns)
    yield from (f"turn {number} is {recorded}, played again {played}"
                for number, (recorded, played) in enumerate(turns, start=1) if recorded != played)
    if sample.done != again.done:
        state = "over" if again.done else "not over"
        yield f"it is {state}, but the record says the opposite"
    if (tokens, log_probs) != (again.tokens_with_stop, again.completion.log_probs):
        yield "its replies have other tokens than the environment gives, or log probabilities"
