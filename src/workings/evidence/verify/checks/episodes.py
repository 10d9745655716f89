"""Levels 1 and 2: episodes of a run with an environment, played again without weights.

The environment is this version's, or that of an installed library in the recorded version. A user's class is
never run.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from workings.config.recipe import MADE_BY_ENVIRONMENT
from workings.environments.base import ROW_KEY, Step
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
from workings.rollouts.episodes import EpisodeRules, beginning, reply_tokens
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import Sample
from workings.scoring.items import item_from_json
from workings.ways.parts.training_data import episode_rules

CALL_SECONDS = 20.0
"""Time limit for a turn of the episodes that are played together here, in seconds."""
CHUNK_EPISODES = 64
"""Episodes that are played together."""
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
    yield from contradictions(EPISODES, recorded, {
        "name": settings.name, "options": dict(settings.config.options), "turns": settings.config.turns,
    }, "the recipe says")
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
    """Problems of all rollouts, in one pass; adds the episodes and turns that were played."""
    inputs, template, clock = rollout_inputs_of(unit), template_of(unit), unit.tree.scoring
    rules = episode_rules(inputs.recipe)
    assert rules is not None  # `has_environment`
    with EnvironmentProcess(settings) as process:
        with clock.measured(process, len(inputs.prompts.prompts)):
            problems = _task_problems(unit, process, inputs.prompts.prompts)
        yield from problems
        for rollout in rollouts_of(unit):
            samples = rollout.all_samples
            for start in range(0, len(samples), CHUNK_EPISODES):
                if reason := clock.reason_over:
                    yield not_checked(f"{counts['episodes']:,} episodes were played again, and no more: {reason}")
                    return
                part = samples[start:start + CHUNK_EPISODES]
                with clock.measured(process, len(part)):
                    problems = [*_play_part(process, template, rules, part, counts)]
                yield from (f"rollout of step {rollout.step}, {problem}" for problem in problems)


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
    # Each keeps the id of its task, so that no task is begun with the seed of another one.
    problems += [f"prompt {prompt.item.id[:60]!r} belongs to the task {str(row.get('id'))[:60]!r}"
                 for prompt, row in zip(prompts, rows, strict=True) if row.get("id") != prompt.item.id]
    if problems:
        return problems
    again = [item_from_json(prompt) for prompt in process.prompts(seed, rows)]
    return [f"task {prompt.item.id[:60]!r} does not begin as its seed and its {ROW_KEY} require"
            for prompt, item in zip(prompts, again, strict=True) if prompt.item != item]


def _play_part(process: EnvironmentProcess, template: ChatTemplate, rules: EpisodeRules,
               part: Sequence[tuple[Prompt, Sample]], counts: Counter[str]) -> Iterator[str]:
    """Replay some episodes, turn by turn together; their differences."""
    process.reset([beginning(prompt) for prompt, _ in part])
    ends = [0] * len(part)
    running = [*range(len(part))]
    for turn in range(rules.turns + 1):
        running = [n for n in running if turn < len(part[n][1].turns)]
        texts = []
        for n in running:
            sample = part[n][1]
            start, ends[n] = ends[n], ends[n] + sum(sample.turns[turn][:2])
            texts.append((n, template.tokenizer.decode(_written(sample, start, turn, template.stop_ids))))
        replies = process.step(texts) if texts else []
        counts["turns"] += len(texts)
        wrong = {n: problem for n, reply in zip(running, replies, strict=True)
                 if (problem := _turn_problem(template, rules, part[n], turn, ends[n], reply))}
        yield from (f"{part[n][0].item.id[:60]!r}, turn {turn + 1}: {problem}" for n, problem in wrong.items())
        # After a difference the further turns of an episode are meaningless.
        running = [n for n in running if n not in wrong]
    yield from (f"{part[n][0].item.id[:60]!r}: more turns than {rules.turns}" for n in running
                if len(part[n][1].turns) > rules.turns)
    counts["episodes"] += len(part)


def _written(sample: Sample, start: int, turn: int, stop_ids: Sequence[int]) -> list[int]:
    """Tokens of a turn as the environment was given them: without the stop token."""
    tokens = sample.completion.tokens[start:start + sample.turns[turn].written]
    # That of the last turn is in no list of tokens.
    return tokens[:-1] if turn < len(sample.turns) - 1 and tokens[-1:] and tokens[-1] in stop_ids else tokens


def _turn_problem(template: ChatTemplate, rules: EpisodeRules, part: tuple[Prompt, Sample], turn: int, end: int,
                  reply: Step) -> str:
    """What of a recorded turn (from 0) differs from the environment's reply; empty if nothing does.

    ``end``: tokens up to this turn's reply, that included.
    """
    prompt, sample = part
    recorded, tokens = sample.turns[turn], sample.tokens_with_stop
    is_last = turn == len(sample.turns) - 1
    if recorded.reward != reply.reward:
        return f"its reward is {recorded.reward:g}, played again {reply.reward:g}"
    if is_last and sample.done != reply.done:
        return f"the episode is{'' if reply.done else ' not'} over, but the record says the opposite"
    stop = sample.completion.stop_token if is_last else tokens[end - recorded.observed - 1]
    observed = reply_tokens(reply, template, ended=stop in template.stop_ids)
    # The last reply of an episode is not recorded, but its length decides whether there was room for it.
    length = len(prompt.tokens) + end + (len(observed) if is_last else 0)
    if rules.goes_on(turns=turn + 1, tokens=length, reply=reply) == is_last:
        return "the episode was cut here but would continue" if is_last else "a further turn, and the episode is over"
    if tokens[end - recorded.observed:end] != ([] if is_last else observed):
        return "the reply has other tokens than the environment gives"
    log_probs = sample.completion.log_probs[end - recorded.observed:end]
    return "the reply has log probabilities" if any(log_probs) else ""
