"""Levels 1 and 2: prompts, rewards and advantages of a run with rollouts follow from each other.

No weights are needed: the completions are in the record, and are rewarded again.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from typing import Any

from workings.config.rewards import FileReward, JudgeReward, RewardConfig, reward_name
from workings.data.rows import prompt_digest
from workings.errors import RequestError, RewardError
from workings.evidence.verify.limits import ScoringTime
from workings.evidence.verify.record import Unit, field_of
from workings.evidence.verify.registry import Found, check, not_checked, records
from workings.evidence.verify.result import CheckFinding
from workings.evidence.verify.rollout_inputs import RolloutInputs, rollout_inputs_of, rollouts_of, template_of
from workings.evidence.verify.tree import shown
from workings.models.chat import ChatTemplate
from workings.record.digest import bytes_digest, json_digest
from workings.record.layout import PROMPTS, RECIPE, REWARDS, ROLLOUTS
from workings.record.storage import refuse_too_large
from workings.rollouts.rollout import Rollout, to_reward
from workings.scoring.model_judge import JUDGE, JUDGE_VERSION, PROMPT, score_of
from workings.scoring.rewards import RewardProcess, RewardSettings, total
from workings.scoring.scorers import needs_library

PROMPT_KEYS = {"id", "status", "item", "tokens", "prompt_digest", "reason"}
"""Keys of a line of `data/prompts.jsonl`."""
CALL_SECONDS = 20.0
"""Time limit for one reward of one rollout here, in seconds; a completion takes a millisecond."""


@check("consistency.prompts", when=records(ROLLOUTS))
def prompts(unit: Unit) -> Found:
    """Digests of prompts and rewards; the rewards against those of the recipe, with their weights and limits."""
    inputs, digests = rollout_inputs_of(unit), unit.manifest.data_digests
    if digests.get("prompts") != inputs.prompts.digest:
        yield f"{PROMPTS} has digest {inputs.prompts.digest[:16]}…, the manifest {str(digests.get('prompts'))[:16]}…"
    for row in unit.lines(PROMPTS):
        # `consistency.disjoint` compares these digests with the questions of evaluations.
        if row["status"] == "kept" and row["prompt_digest"] != prompt_digest(row["item"]["prompt"]):
            yield f"{shown(row['id'])}: its prompt_digest is not that of its prompt"
        if row.keys() - PROMPT_KEYS:
            yield f"{shown(str(row.get('id')))}: keys that no prompt has"
    if inputs.settings is not None:
        yield from _reward_problems(unit.json(REWARDS), inputs.settings, digests.get("rewards"))
        yield from _kept_function_problems(unit, inputs.settings)
    return f"{len(inputs.prompts.prompts):,} prompts; rewards: " + (", ".join(inputs.reward_names) or "none")


@check("recompute.rewards", when=records(ROLLOUTS))
def rewards(unit: Unit) -> Found:
    """Tokens of prompts against the record's tokenizer; a completion ends with a stop token or at the limit.

    Rewards of each completion, computed again in a process with limits; a user's function is not run. The sum of
    weights times rewards, and the algorithm's advantages of each group, equal to the bit.
    """
    inputs, template, counts = rollout_inputs_of(unit), template_of(unit), Counter[str]()
    recorded = inputs.settings.rewards if inputs.settings else ()
    not_here = _other_libraries(unit.json(REWARDS), inputs.settings) if inputs.settings else {}
    recomputed = tuple(reward for reward in recorded if not isinstance(reward, FileReward | JudgeReward)
                       and reward.scorer not in not_here)
    yield from _rollout_problems(unit, recomputed, counts)
    yield from (f"prompt {prompt.item.id[:60]!r}: other tokens than its question gives"
                for prompt in inputs.prompts.prompts
                if tuple(template.prompt_ids(prompt.item.prompt, prompt.item.history)) != prompt.tokens)
    if user_rewards := [reward_name(reward) for reward in recorded if isinstance(reward, FileReward)]:
        yield not_checked(f"the reward {', '.join(user_rewards)} is code from elsewhere, which is not run; its values "
                          "are as recorded")
    if any(isinstance(reward, JudgeReward) for reward in recorded):
        yield not_checked("its judge's replies are as recorded: the judge is not asked again", blocking=False)
    yield from map(not_checked, not_here.values())
    return f"{counts['completions']:,} completions, {counts['rewards']:,} rewards, each the recorded one"


def _rollout_problems(unit: Unit, recomputed: tuple[RewardConfig, ...], counts: Counter[str]
                      ) -> Iterator[str | CheckFinding]:
    """Problems of all rollouts, in one pass, with the rewards of ``recomputed`` computed again.

    ``counts``: the numbers of `completions`, of `rewards`, and of the completions `rewarded again` are added to it.
    """
    inputs, template = rollout_inputs_of(unit), template_of(unit)
    settings, process = inputs.settings, None
    with ExitStack() as stack:
        if settings is not None and recomputed:
            process = stack.enter_context(RewardProcess(
                replace(settings, rewards=recomputed, call_seconds=CALL_SECONDS)))
        for rollout in rollouts_of(unit):
            counts["completions"] += len(rollout.all_samples)
            yield from _end_problems(inputs, template, rollout)
            if settings is not None:
                yield from _advantage_problems(inputs, settings, rollout)
                if any(isinstance(reward, JudgeReward) for reward in settings.rewards):
                    yield from _reply_problems(rollout, counts)
            if process is not None:
                yield from _reward_again(process, template, rollout, unit.tree.scoring, counts)
        if process is not None and counts["rewarded again"] < counts["completions"]:
            yield not_checked(f"{counts['rewards']:,} rewards were computed again, and no more: "
                              f"{unit.tree.scoring.reason_over}")


def _end_problems(inputs: RolloutInputs, template: ChatTemplate, rollout: Rollout) -> Iterator[str]:
    """Completions, and turns of episodes, that neither end with a stop token nor have the largest length."""
    limit, stops = inputs.algorithm.max_new_tokens, set(template.stop_ids)
    for _, sample in rollout.all_samples:
        # The tokens of an episode: the first turn, the environment's reply to it, the second turn, and so on.
        lengths = [(turn.written, turn.observed) for turn in sample.turns] or [(len(sample.tokens_with_stop), 0)]
        start = 0
        for number, (written, observed) in enumerate(lengths, start=1):
            tokens = sample.tokens_with_stop[start:start + written]
            start += written + observed
            is_stopped = ends_with_stop = bool(tokens) and tokens[-1] in stops
            if number == len(lengths):  # of the last turn, the record says whether it was cut off
                is_stopped = sample.completion.stop_token is not None
            content = tokens[:-1] if is_stopped else tokens
            is_possible = ends_with_stop and len(content) < limit if is_stopped else len(content) == limit
            # A stop token in the middle would mean that sampling continued after it.
            if not is_possible or stops & {*content}:
                yield (f"rollout of step {rollout.step}: a completion of {len(content)} tokens that neither ended nor "
                       "was cut off")


def _advantage_problems(inputs: RolloutInputs, settings: RewardSettings, rollout: Rollout) -> Iterator[str]:
    for group in rollout.groups:
        subject = f"rollout of step {rollout.step}, {group.prompt.item.id[:60]!r}"
        try:
            sums = [total(sample.rewards, settings) for sample in group.samples]
        except RewardError:  # beyond the largest number
            sums = []
        if sums != [sample.reward for sample in group.samples]:
            yield f"{subject}: its rewards do not add up"
        elif inputs.algorithm.advantages(sums) != [sample.advantage for sample in group.samples]:
            yield f"{subject}: other advantages than its rewards give"


def _reward_again(process: RewardProcess, template: ChatTemplate, rollout: Rollout, clock: ScoringTime,
                  counts: Counter[str]) -> Iterator[str]:
    """Rewards that come out different; ``counts`` as for `_rollout_problems`."""
    for part in clock.chunks(process, rollout.all_samples):
        # One token of a record's vocabulary may be pages of text; sending a text takes four copies of it.
        used = Counter[int]()
        for _, sample in part:
            used.update(sample.completion.tokens)
        refuse_too_large(4 * sum(count * len(template.tokenizer.token(token)) for token, count in used.items()),
                         "the text of its completions")
        values = process.score([to_reward(prompt, sample, template.tokenizer) for prompt, sample in part])
        yield from (f"rollout of step {rollout.step}, {prompt.item.id[:60]!r}: {name} is "
                    f"{str(sample.rewards.get(name))[:20]}, rewarded again {value:g}"
                    for (prompt, sample), rewards_again in zip(part, values, strict=True)
                    for name, value in rewards_again.items() if sample.rewards.get(name) != value)
        counts.update({"rewarded again": len(part), "rewards": sum(map(len, values))})


def _reply_problems(rollout: Rollout, counts: Counter[str]) -> Iterator[str]:
    """Differences between a judge's recorded replies and its rewards; the judge is not asked again."""
    for prompt, sample in rollout.all_samples:
        value = score_of(sample.judge_reply) or 0.0
        if sample.rewards.get(JUDGE) != value:
            yield (f"rollout of step {rollout.step}, {prompt.item.id[:60]!r}: {JUDGE} is "
                   f"{str(sample.rewards.get(JUDGE))[:20]}, its recorded reply gives {value:g}")
        counts["rewards"] += 1


def _reward_problems(recorded: Any, settings: RewardSettings, manifest_digest: str | None) -> Iterator[str]:
    """Problems of `config/rewards.json`, compared with the manifest, the recipe and this version's rewards."""
    if manifest_digest != json_digest(recorded):
        yield f"{REWARDS} has digest {json_digest(recorded)[:16]}…, the manifest {str(manifest_digest)[:16]}…"
    for entry, reward, name in zip(recorded, settings.rewards, settings.names, strict=True):
        recorded_version = entry.get("version")
        if (entry.get("name"), entry.get("weight")) != (name, reward.weight):
            yield f"{REWARDS}: another reward or weight than the recipe's {name}"
        elif isinstance(reward, JudgeReward):
            is_ours = str(recorded_version).startswith(f"{JUDGE_VERSION} ")
            if field_of(entry, "parameters.prompt") != PROMPT or not is_ours:
                yield f"{REWARDS}: its judge was asked by another prompt than that of version {JUDGE_VERSION}"
        else:
            # Versions of libraries may be others here, and a file's version is its digest.
            has_one_version = not isinstance(reward, FileReward) and not needs_library(reward.scorer)
            if {**entry, "version": ""} != settings.entry(reward, version="") or (
                    has_one_version and recorded_version != settings.version(reward)):
                yield f"{REWARDS}: {name} is not what the recipe and this version make of it"


def _versions(recorded: Any) -> dict[str, Any]:
    return {str(entry.get("name")): entry.get("version") for entry in recorded}


def _kept_function_problems(unit: Unit, settings: RewardSettings) -> Iterator[str]:
    """Problems of reward functions that were given in Python, whose files the run keeps next to its recipe."""
    folder, versions = RECIPE.rpartition("/")[0], _versions(unit.json(REWARDS))
    functions = {f"{folder}/{reward.file}": reward_name(reward) for reward in settings.rewards
                 if isinstance(reward, FileReward)}
    yield from (f"{file} has another digest than {REWARDS} says of {name}" for file, name in functions.items()
                if unit.has(file) and f"sha256:{bytes_digest(unit.read(file))}" != versions.get(name))
    yield from (f"{shown(file)} is the file of no reward" for file in unit.files
                if file.rpartition("/")[0] == folder and file.endswith(".py") and file not in functions)


def _other_libraries(recorded: Any, settings: RewardSettings) -> dict[str, str]:
    """Rewards that cannot be computed again here, and why: a library is missing or has another version."""
    reasons, versions = {}, _versions(recorded)
    for reward in (each for each in settings.rewards if needs_library(each.scorer)):
        name, recorded_version = reward.scorer, versions.get(reward.scorer, "")
        try:
            version = settings.version(reward)
        except RequestError as error:
            reasons[name] = f"{error.given}: {error.try_next}"
        else:
            if recorded_version != version:
                reasons[name] = f"reward {name!r}: version {str(recorded_version)[:100]!r} there, {version!r} here"
    return reasons
