"""Fakes about small runs that the recorder wrote without an engine: one with an evaluation, and those with rewards."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.evidence import rewarded
from tests.evidence.fakes import (
    FOUND,
    NAMED,
    Fake,
    Files,
    Table,
    add,
    digest_of,
    digest_says,
    edit,
    every,
    of_data,
    put,
    recipe,
    recipe_everywhere,
    scored_again,
    together,
    values_in,
    write,
)
from tests.record import synthetic
from workings.config.recipe import Recipe
from workings.config.rewards import reward_name
from workings.data.rows import prompt_digest
from workings.record.attempts import line_digest
from workings.rollouts import rollout_json
from workings.rollouts.prompts import Prompt, read_recorded_prompts
from workings.rollouts.rollout import Rollout, Sample, mismatch, rollout_metrics
from workings.ways.parts.rollout_batch import RolloutShape, batch_of
from workings.ways.parts.rollout_batch import digest_of as batch_digest

RUN = "tiny"
MANIFEST, METRICS, EVENTS = (f"{RUN}/{name}" for name in (
    "run_manifest.json", "train/metrics.jsonl", "train/events.jsonl"))
ROWS, RECIPE, EVAL = (f"{RUN}/{name}" for name in ("data/rows.jsonl", "config/resolved.json", "eval/test"))
PREDICTIONS = f"{EVAL}/predictions.jsonl"
Lines = list[dict[str, Any]]


def asked_prompt(files: Files) -> None:
    """A row trained on that is asked afterwards."""
    put(ROWS, "0.prompt_digest", prompt_digest("  " + values_in(files, PREDICTIONS)[0]["prompt"].upper()))(files)


def all_right(found: Lines) -> Lines:
    """Completions of a model that is always right."""
    right = next(each for each in found if each["score"] == 1)
    kept = ("score", "rule", "format_ok", "reasoning_chars", "steps_checked", "steps_valid", "completion_tokens")
    return [each | {key: right[key] for key in kept} | {
        "completion": f"<reasoning>1</reasoning><answer>{each['gold']}</answer>", "extracted": each["gold"]}
        for each in found]


OF_A_SMALL_RUN: Table = of_data("small") | {
    "order of steps": (edit(METRICS, lambda found: found[::-1]), "consistency.steps: is step 6"),
    "no rate in the recipe": (recipe(RUN, "training", {"steps": 6}), NAMED),
    "a question trained on": (asked_prompt, "consistency.disjoint"),
    "null": (put(f"{RUN}/env/env_info.json", "gpu", None), "form.json"),
}


def chained_again(found: Lines) -> Lines:
    """The second start left out, and the digests of all that follow rebuilt; the run's event names the old one."""
    first, _, *others = found
    last = line_digest(first)
    for each in others:
        each["after"], last = last, line_digest(each | {"after": last})
    return [first, *others]


OF_A_LIST: Table = of_data("chained") | {
    "a start left out, and the list chained again": (edit("attempts.jsonl", chained_again), (
        "consistency.attempts: lacks or changed a line that the run's events name"))}
CONSISTENT: dict[str, Fake] = {
    "the whole run on another day": together(
        every(EVENTS, lambda each: {"time": "2025-01-01T10:00:00.000Z"}),
        put(MANIFEST, "finished_at", "2025-01-01T10:00:09.000Z")),
    "all losses": every(METRICS, lambda each: {"loss": 1.0 / each["step"]}),
    "the weights": add(f"{RUN}/checkpoints/step_000006/model.safetensors", synthetic.safetensors_bytes([9.0] * 64)),
    "the completions": together(edit(PREDICTIONS, all_right), scored_again(EVAL))}
"""Inventions in which nothing is wrong: only a digest kept elsewhere or another run settles them."""

# --- a run that learned from rewards ------------------------------------------------------------------------------

FIRST, PROMPTS, REWARDS = (f"{RUN}/{name}" for name in (
    "train/rollouts/step_000001.json", "data/prompts.jsonl", "config/rewards.json"))
Change = Callable[[Sample], Sample | None]
"""Another sample; None where this fake cannot be told of it."""


def prompts_of(files: Files) -> dict[str, Prompt]:
    return {each["id"]: Prompt.from_json(each) for each in values_in(files, PROMPTS)}


def prompts(change: Callable[[Lines], Any]) -> Fake:
    """Other prompts, and their digest."""
    return together(edit(PROMPTS, change), digest_says(
        RUN, "prompts", lambda files: read_recorded_prompts(values_in(files, PROMPTS), 7).digest))


def first_rollout(files: Files, name: str = FIRST) -> Rollout:
    return rollout_json.from_json(values_in(files, name), prompts_of(files))


def of_rollout(change: Callable[[Rollout], Rollout]) -> Fake:
    """Another first rollout."""
    return lambda files: write(files, FIRST, rollout_json.to_json(change(first_rollout(files))))


def with_sample(rollout: Rollout, change: Change, share: float = 0.0) -> Rollout:
    """A rollout with one sample changed that was learned from: of those that can be, the one at this share of them."""
    possible = [(group, number, fake) for group, of_group in enumerate(rollout.groups) if of_group.kept
                for number, sample in enumerate(of_group.samples) if (fake := change(sample)) is not None]
    group, number, fake = possible[round(share * (len(possible) - 1))]
    groups = [*rollout.groups]
    samples = [*groups[group].samples]
    samples[number] = fake
    groups[group] = replace(groups[group], samples=tuple(samples))
    return replace(rollout, groups=tuple(groups))


def following(rollout: Rollout, asked: Recipe) -> Fake:
    """The most patient forger: sums, advantages, log and batch digests follow from a changed rollout."""
    algorithm: Any = asked.algorithm
    weights = {reward_name(reward): reward.weight for reward in asked.rewards}
    groups = []
    for group in rollout.groups:
        sums = [math.fsum(weight * sample.rewards[name] for name, weight in weights.items())
                for sample in group.samples]
        groups.append(replace(group, samples=tuple(
            replace(sample, reward=reward, advantage=advantage) for sample, reward, advantage in
            zip(group.samples, sums, algorithm.advantages(sums), strict=True))))
    rollout = replace(rollout, groups=tuple(groups))
    shape = RolloutShape.from_recipe(asked, algorithm, devices=1, pad_id=0)

    def log(rows: Lines) -> None:
        rows[0] |= rollout_metrics(rollout, [*weights]) | mismatch(rollout)
        for part in (0, 1):
            batch = batch_of(rollout, part, shape, algorithm)
            rows[part] |= {"batch_digest": batch_digest(batch), "tokens": batch.real_tokens,
                           "supervised_tokens": batch.supervised_tokens}
    return together(put(FIRST, "", rollout_json.to_json(rollout)), edit(METRICS, log))


def another_token(sample: Sample) -> Sample:
    tokens = [*sample.completion.tokens]
    tokens[-1] += 1
    return replace(sample, completion=replace(sample.completion, tokens=tokens))


def surer_when_drawn(sample: Sample) -> Sample:
    return replace(sample, completion=replace(sample.completion, log_probs=[-0.01, *sample.completion.log_probs[1:]]))


def trainer_agrees(rollout: Rollout) -> Rollout:
    """The trainer agrees with the sampler to the bit."""
    return replace(rollout, trainer_log_probs=tuple(
        np.asarray(sample.completion.log_probs, np.float32) for _, sample in rollout.trained_samples))


def no_stop_token(sample: Sample) -> Sample | None:
    """A completion that ended is recorded as cut off."""
    said = sample.completion
    return None if said.stop_token is None else replace(sample, completion=replace(
        said, stop_token=None, finish_reason="length", log_probs=said.log_probs[:-1]))


def flipped(sample: Sample) -> Sample:
    return replace(sample, rewards={**sample.rewards, "answer": 1 - sample.rewards["answer"]})


def agreeing(files: Files) -> None:
    """No mismatch of trainer and sampler, in the rollouts and in the log."""
    for name in [name for name in files if "/rollouts/" in name]:
        write(files, name, rollout_json.to_json(trainer_agrees(first_rollout(files, name))))
    every(METRICS, lambda each: {"mismatch": 0, "mismatch_most": 0, "mismatch_ratio": 1} if "mismatch" in each else {})(
        files)


def answer(of_drawn: bool) -> Fake:
    """Another expected answer of the questions that were drawn, or of all others, else of the last one."""
    def fake(files: Files) -> None:
        drawn = {name for file in files if "/rollouts/" in file for name in values_in(files, file)["prompts"]}

        def change(found: Lines) -> None:
            for each in [each for each in found if (each["id"] in drawn) is of_drawn] or found[-1:]:
                each["item"]["expected_answer"] = "42"
        prompts(change)(files)
    return fake


def other_weight(files: Files) -> None:
    """Another weight of the first reward, in the recipe, next to it and in the digests."""
    together(put(REWARDS, "0.weight", 2.0), digest_says(RUN, "rewards", digest_of(REWARDS)))(files)
    resolved = values_in(files, RECIPE)["rewards"]
    recipe_everywhere(RUN, "rewards", [resolved[0] | {"weight": 2.0}, *resolved[1:]])(files)


TURNS = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
OF_REWARDED_TEXTS: Table = of_data("rewarded_texts") | {
    "one reward flipped": (put(FIRST, "rewards.answer.0", lambda found: 1 - found[0]),
                           "recompute.rewards consistency.rollouts"),
    "one reward flipped, and all that follows": (lambda files: following(
        with_sample(first_rollout(files), flipped), rewarded.recipe())(files), "recompute.rewards"),
    "one advantage moved": (put(FIRST, "advantages.0", lambda found: found[0] + 0.5), "recompute.rewards"),
    "one token changed": (of_rollout(lambda found: with_sample(found, another_token)), FOUND),
    "two prompts exchanged": (put(FIRST, "prompts", lambda found: [
        found["prompts"][1], found["prompts"][0], *found["prompts"][2:]]), "consistency.rollouts"),
    "a group left out that should be learned from": (edit(FIRST, lambda value: value["kept"].__setitem__(
        value["kept"].index(True), False)), FOUND),
    "a log probability of the sampler": (
        of_rollout(lambda found: with_sample(found, surer_when_drawn)), FOUND),
    "the trainer agrees more": (of_rollout(trainer_agrees), "consistency.rollouts"),
    "a completion that was cut off": (
        of_rollout(lambda found: trainer_agrees(with_sample(found, no_stop_token))), "recompute.rewards"),
    "an easier prompt": (answer(of_drawn=True), "recompute.rewards"),
    "another conversation before a question": (prompts(lambda found: found[0]["item"].update(history=TURNS)),
                                               "recompute.rewards"),
    "trainer and sampler agree to the bit": (agreeing, NAMED),
    "the answer of a question that was never drawn": (answer(of_drawn=False), NAMED),
    "another weight of a reward, in the recipe as well": (other_weight, FOUND),
    "a question fewer": (prompts(lambda found: found[:-1]), FOUND),
}
KINDS = {"small": OF_A_SMALL_RUN, "chained": OF_A_LIST, "rewarded_texts": OF_REWARDED_TEXTS} | {
    kind: of_data(kind) for kind in ("one_update", "sampled_elsewhere", "sampled_ahead", "completions")}
