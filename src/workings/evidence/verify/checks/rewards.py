"""Levels 1 and 2: of a run that drew what it learned from, prompts, rewards and advantages follow.

No weights are needed: what was drawn stands in the record, and is rewarded again.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from workings.errors import RecordError, RequestError, RewardError
from workings.evidence.verify.limits import AT_ONCE, ScoringTime
from workings.evidence.verify.record import Unit
from workings.evidence.verify.registry import check, every_run, failed, finding_from, not_checked
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.rollout_inputs import (
    Learned,
    has_rewards,
    learned_of,
    rollouts_of,
    template_of,
    uses_rollouts,
)
from workings.evidence.verify.tree import shown
from workings.record.digest import json_digest
from workings.record.layout import DATA_DIGESTS, PROMPTS, REWARDS
from workings.record.plain import refuse_too_large

if TYPE_CHECKING:
    from workings.config.rewards import RewardConfig
    from workings.models.chat import ChatTemplate
    from workings.rollouts.rollout import Rollout
    from workings.scoring.rewards import RewardProcess, RewardSettings

PROMPT_KEYS = {"id", "status", "item", "tokens", "prompt_digest", "reason"}
"""Keys of a line of `data/prompts.jsonl`."""
CALL_SECONDS = 20.0
"""Time limit for one reward of one rollout here, in seconds; a completion takes a millisecond."""


@check("consistency.prompts", level=1, title="prompts and rewards are those that the manifest names", units=every_run,
       when=uses_rollouts, example="a reward of another weight than the recipe gives it")
def prompts(unit: Unit) -> Iterator[CheckFinding]:
    """Their digests; the rewards are those of the recipe, with their weights and limits."""
    from workings.data.rows import prompt_digest
    learned = learned_of(unit)
    said = unit.manifest.data_digests
    problems = []
    if said.get("prompts") != learned.prompts.digest:
        problems.append(f"{PROMPTS} has digest {learned.prompts.digest[:16]}…, the manifest "
                        f"{str(said.get('prompts'))[:16]}…")
    # By these digests questions are found that are also measured with; another one would hide such a question.
    problems += [f"{shown(row['id'])}: its prompt_digest is not that of its prompt" for row in unit.lines(PROMPTS)
                 if row["status"] == "kept" and row["prompt_digest"] != prompt_digest(row["item"]["prompt"])]
    problems += [f"{shown(str(row.get('id')))}: keys that no prompt has" for row in unit.lines(PROMPTS)
                 if row.keys() - PROMPT_KEYS]
    if learned.settings is not None:
        problems += _reward_problems(unit.json(REWARDS), learned.settings, said.get("rewards"))
    if unit.has(DATA_DIGESTS) and unit.json(DATA_DIGESTS) != said:
        problems.append(f"{DATA_DIGESTS} differs from the manifest")
    yield finding_from(problems, f"{len(learned.prompts.prompts):,} prompts; rewards: "
                                 + (", ".join(learned.reward_names) or "none"), unit)


@check("recompute.prompts", level=2, title="prompts are the chat template's tokens, and completions end as they say",
       units=every_run, when=uses_rollouts, example="a completion that ended by itself, said to be cut off")
def prompt_tokens(unit: Unit) -> Iterator[CheckFinding]:
    """Tokens against the record's tokenizer; a completion ends with a stop token or at the limit and nowhere else."""
    learned, template = learned_of(unit), template_of(unit)
    problems = [f"prompt {prompt.item.id[:60]!r}: other tokens than its question gives"
                for prompt in learned.prompts.prompts
                if tuple(template.prompt_ids(prompt.item.prompt, prompt.item.history)) != prompt.tokens]
    yield finding_from(problems + _again(unit).ends, f"{len(learned.prompts.prompts):,} prompts", unit)


@check("recompute.rewards", level=2, title="every completion, rewarded again, gets the recorded rewards",
       units=every_run, when=has_rewards, example="a reward flipped, and advantages and log made again to match it")
def rewards(unit: Unit) -> Iterator[CheckFinding]:
    """Rewards of each completion against this project's, in a process with limits. A person's function is not run."""
    from workings.config.rewards import FileReward, reward_name
    again, settings = _again(unit), _settings(learned_of(unit))
    own = [reward_name(reward) for reward in settings.rewards if isinstance(reward, FileReward)]
    if again.cannot:
        yield failed(f"cannot be rewarded again: {again.cannot}", unit)
        return
    if again.rewards or again.rewarded:
        yield finding_from(again.rewards, f"{again.rewarded:,} rewards, each the recorded one", unit)
    if again.why_less:
        yield not_checked(f"{again.rewarded:,} rewards were computed again, and no more: {again.why_less}", unit)
    if own:
        yield not_checked(f"the reward {', '.join(own)} is code from elsewhere, which is not run; its values are "
                          "as recorded", unit)
    for unlike in _unlike_libraries(unit.json(REWARDS), settings).values():
        yield not_checked(unlike, unit)


@check("recompute.advantages", level=2, title="every advantage follows from the rewards of its group", units=every_run,
       when=has_rewards, example="one advantage, moved")
def advantages(unit: Unit) -> Iterator[CheckFinding]:
    """Sums of weights times values, and the algorithm's advantages of each group; equal to the bit."""
    again = _again(unit)
    algorithm = learned_of(unit).recipe.algorithm.name
    yield finding_from(again.advantages, f"{again.completions:,} advantages of {algorithm}", unit)


@dataclass(kw_only=True)
class _Again:
    """What a second reading found, with tokenizer and rewards."""

    ends: list[str] = field(default_factory=list)
    rewards: list[str] = field(default_factory=list)
    advantages: list[str] = field(default_factory=list)
    completions: int = 0
    rewarded: int = 0
    cannot: str = ""
    """Why nothing could be rewarded again."""
    why_less: str = ""
    """Why the rest was not rewarded again."""


def _again(unit: Unit) -> _Again:
    return unit.cached("computed again", lambda: _compute(unit))


def _compute(unit: Unit) -> _Again:
    learned, template, again = learned_of(unit), template_of(unit), _Again()
    with ExitStack() as stack:
        process = None
        if learned.settings is not None and (ours := _ours(unit, learned.settings)):
            from workings.scoring.rewards import RewardProcess
            try:
                process = stack.enter_context(RewardProcess(
                    replace(learned.settings, rewards=ours, call_seconds=CALL_SECONDS)))
            except (RequestError, RewardError) as error:
                again.cannot = str(error)
        for rollout in rollouts_of(unit):
            again.completions += len(rollout.all_samples)
            again.ends += _end_problems(learned, template, rollout)
            if learned.settings is not None:
                again.advantages += _advantage_problems(learned, learned.settings, rollout)
            if process is not None and not again.cannot:
                try:
                    _reward_again(again, process, template, rollout, unit.tree.scoring)
                except (RequestError, RewardError) as error:
                    again.cannot = str(error)
    return again


def _ours(unit: Unit, settings: "RewardSettings") -> "tuple[RewardConfig, ...]":
    """Rewards that are computed again: no person's code, and no library that is another one here."""
    from workings.config.rewards import FileReward
    unlike = _unlike_libraries(unit.json(REWARDS), settings)
    return tuple(reward for reward in settings.rewards
                 if not isinstance(reward, FileReward) and reward.scorer not in unlike)


def _end_problems(learned: Learned, template: "ChatTemplate", rollout: "Rollout") -> list[str]:
    limit, stops, problems = learned.algorithm.max_new_tokens, set(template.stop_ids), []
    for _, sample in rollout.all_samples:
        completion = sample.completion
        cut = completion.stop_token is None and len(completion.tokens) == limit
        # The stop token is one of the new tokens, so that at most one less than the limit stand before it.
        ended = completion.stop_token in stops and len(completion.tokens) < limit
        if not (cut or ended) or stops & set(completion.tokens):
            problems.append(f"rollout of step {rollout.step}: a completion of {len(completion.tokens)} tokens "
                            "that neither ended nor was cut off")
    return problems


def _advantage_problems(learned: Learned, settings: "RewardSettings", rollout: "Rollout") -> list[str]:
    from workings.scoring.rewards import total
    problems = []
    for group in rollout.groups:
        place = f"rollout of step {rollout.step}, {group.prompt.item.id[:60]!r}"
        try:
            sums = [total(sample.rewards, settings) for sample in group.samples]
        except RewardError:  # beyond the largest number
            sums = []
        if sums != [sample.reward for sample in group.samples]:
            problems.append(f"{place}: its rewards do not add up")
        # Equal and not near: sums are `fsum`'s, which no order of adding changes.
        elif learned.algorithm.advantages(sums) != [each.advantage for each in group.samples]:
            problems.append(f"{place}: other advantages than its rewards give")
    return problems


def _reward_again(again: _Again, process: "RewardProcess", template: "ChatTemplate", rollout: "Rollout",
                  clock: ScoringTime) -> None:
    """Add what differs in a rollout, and how many of its rewards were computed until the time was over."""
    from workings.rollouts.rollout import to_reward
    drawn = rollout.all_samples
    for start in range(0, len(drawn), AT_ONCE):
        again.why_less = clock.why_over
        if again.why_less:
            return
        part = drawn[start:start + AT_ONCE]
        with clock.measured():
            # The record's own vocabulary may make pages of one token, and texts are there four times while they are
            # sent.
            used = Counter[int]()
            for _, sample in part:
                used.update(sample.completion.tokens)
            refuse_too_large(4 * sum(count * len(template.tokenizer.token(token)) for token, count in used.items()),
                             "the text of its completions")
            values = process.score([to_reward(prompt, sample.completion, template.tokenizer)
                                    for prompt, sample in part])
        again.rewards += [
            f"rollout of step {rollout.step}, {prompt.item.id[:60]!r}: {name} is "
            f"{str(sample.rewards.get(name))[:20]}, rewarded again {value:g}"
            for (prompt, sample), rewards_again in zip(part, values, strict=True)
            for name, value in rewards_again.items() if sample.rewards.get(name) != value]
        again.rewarded += sum(map(len, values))


def _settings(learned: Learned) -> "RewardSettings":
    if learned.settings is None:
        raise RecordError("its algorithm has rewards by name, its recipe has none")
    return learned.settings


def _reward_problems(recorded: Any, settings: "RewardSettings", said: str | None) -> list[str]:
    """What `config/rewards.json` says against the manifest, the recipe and this version's rewards."""
    from workings.config.rewards import FileReward
    from workings.scoring.scorers import needs_library
    problems = []
    if said != json_digest(recorded):
        problems.append(f"{REWARDS} has digest {json_digest(recorded)[:16]}…, the manifest {str(said)[:16]}…")
    if not isinstance(recorded, list) or len(recorded) != len(settings.rewards):
        return [*problems, f"{REWARDS} does not name the recipe's rewards"]
    for entry, reward, name in zip(recorded, settings.rewards, settings.names, strict=True):
        if not isinstance(entry, dict) or (entry.get("name"), entry.get("weight")) != (name, reward.weight):
            problems.append(f"{REWARDS}: another reward or weight than the recipe's {name}")
        # A version may name libraries, which may be others here or missing.
        elif not isinstance(reward, FileReward) and (
                {**entry, "version": ""} != settings.entry(reward, version="")
                or (not needs_library(reward.scorer) and entry.get("version") != settings.version(reward))):
            problems.append(f"{REWARDS}: {name} is not what the recipe and this version make of it")
    return problems


def _unlike_libraries(recorded: Any, settings: "RewardSettings") -> dict[str, str]:
    """Rewards that cannot be computed again here, and why: a library is missing, or another one decides here."""
    from workings.scoring.scorers import needs_library
    unlike = {}
    for reward in [each for each in settings.rewards if needs_library(each.scorer)]:
        name = reward.scorer
        said = next((entry.get("version") for entry in recorded if isinstance(entry, dict)
                     and entry.get("name") == name), "") if isinstance(recorded, list) else ""
        try:
            here = settings.version(reward)
        except RequestError as error:
            unlike[name] = f"{error.given}: {error.try_next}"
        else:
            if said != here:
                unlike[name] = f"reward {name!r}: version {str(said)[:100]!r} there, {here!r} here"
    return unlike
