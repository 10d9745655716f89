"""Fakes about small runs that the recorder wrote without an engine: one with an evaluation, and those with rewards."""

from collections.abc import Callable
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
    row,
    scored_again,
    together,
    values_in,
    write,
)
from tests.record import synthetic
from workings.data.rows import prompt_digest
from workings.rollouts import arithmetic, rollout_json
from workings.rollouts.prompts import Prompt, read_recorded_prompts
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
    row(ROWS, 0, prompt_digest=prompt_digest("  " + values_in(files, PREDICTIONS)[0]["prompt"].upper()))(files)


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
Rollout = dict[str, Any]


def prompts_of(files: Files) -> dict[str, Prompt]:
    return {each["id"]: Prompt.from_json(each) for each in values_in(files, PROMPTS)}


def prompts(change: Callable[[Lines], Any]) -> Fake:
    """Other prompts, and their digest."""
    return together(edit(PROMPTS, change), digest_says(
        RUN, "prompts", lambda files: read_recorded_prompts(values_in(files, PROMPTS), 7).digest))


def learned(value: Rollout, first: int = 0, last: int | None = None) -> int:
    """Tokens that the samples with these numbers learned from, an end counted as one."""
    return sum(length + (stop >= 0) for length, stop in
               [*zip(value["lengths"], value["stop_tokens"], strict=True)][first:last])


def another_token(value: Rollout) -> None:
    """In a group that was learned from: of one that was left out it shows only when it is sampled again."""
    tokens = rollout_json.unpack_integers(value["tokens"], sum(value["lengths"])).copy()
    tokens[sum(value["lengths"][:4 * value["kept"].index(True)]) + 3] += 1
    value["tokens"] = rollout_json.pack_integers(tokens)


def surer_when_drawn(value: Rollout) -> None:
    bits = rollout_json.unpack_integers(value["sampler_log_probs"], learned(value)).copy()
    bits[learned(value, 0, 4 * value["kept"].index(True))] = np.float32(-0.01).view(np.int32)
    value["sampler_log_probs"] = rollout_json.pack_integers(bits)


def trainer_agrees_more(value: Rollout) -> None:
    count = sum(learned(value, 4 * group, 4 * group + 4) for group, keep in enumerate(value["kept"]) if keep)
    value["trainer_log_probs"] = rollout_json.pack_integers(np.zeros(count, np.int32))


def agreeing(files: Files) -> None:
    """The trainer agrees with the sampler to the bit: no mismatch, in the rollouts and in the log."""
    for name in [name for name in files if "/rollouts/" in name]:
        edit(name, trainer_agrees_more)(files)
    every(METRICS, lambda each: {"mismatch": 0, "mismatch_most": 0, "mismatch_ratio": 1} if "mismatch" in each else {})(
        files)


def undrawn_answer(files: Files) -> None:
    """Another expected answer of a question that was never drawn, or of the last one."""
    drawn = {name for file in files if "/rollouts/" in file for name in values_in(files, file)["prompts"]}
    prompts(lambda found: next((each for each in found if each["id"] not in drawn), found[-1])["item"].update(
        expected_answer="42"))(files)


def other_weight(files: Files) -> None:
    """Another weight of the first reward, in the recipe, next to it and in the digests."""
    together(put(REWARDS, "0.weight", 2.0), digest_says(RUN, "rewards", digest_of(REWARDS)))(files)
    resolved = values_in(files, RECIPE)["rewards"]
    recipe_everywhere(RUN, "rewards", [resolved[0] | {"weight": 2.0}, *resolved[1:]])(files)


def no_stop_token(files: Files) -> None:
    """A completion that ended is said to have been cut off."""
    value = values_in(files, FIRST)
    rollout = rollout_json.from_json(value, prompts_of(files))
    at = next(number for number, stop in enumerate(value["stop_tokens"]) if stop >= 0)
    drawn = [sample for group in rollout.groups for sample in group.samples]

    def shorter(sample: Any, numbers: Any) -> Any:
        return numbers[:-1] if sample is drawn[at] else numbers

    trained = [(sample, said) for (_, sample), said in
               zip(rollout.trained_samples, rollout.trainer_log_probs, strict=True)]
    said, sampled = (np.concatenate([np.asarray(shorter(sample, numbers), "<f4") for sample, numbers in pairs]) for
                     pairs in (trained, [(sample, sample.completion.log_probs) for sample, _ in trained]))
    kept = np.concatenate([np.asarray(shorter(sample, sample.completion.log_probs), "<f4") for sample in drawn])
    value["stop_tokens"][at] = -1
    value["sampler_log_probs"] = rollout_json.pack_integers(kept.view("<i4"))
    value["trainer_log_probs"] = rollout_json.pack_integers(said.view("<i4") - sampled.view("<i4"))
    write(files, FIRST, value)


def easier_prompt(files: Files) -> None:
    """Another expected answer of what was drawn."""
    drawn = values_in(files, FIRST)["prompts"]
    prompts(lambda found: [each["item"].update(expected_answer="1") for each in found if each["id"] in drawn] and None)(
        files)


def flip_thoroughly(files: Files) -> None:
    """The most patient forger: reward, sum, advantages, metrics and batch digests all follow from the fake."""
    asked = rewarded.recipe()
    algorithm: Any = asked.algorithm
    value = values_in(files, FIRST)
    at = value["kept"].index(True) * 4
    value["rewards"]["answer"][at] = 1 - value["rewards"]["answer"][at]
    for group in range(len(value["kept"])):
        own = range(group * 4, group * 4 + 4)
        sums = [value["rewards"]["answer"][n] + 0.5 * value["rewards"]["overlong"][n] for n in own]
        for number, reward, advantage in zip(own, sums, algorithm.advantages(sums), strict=True):
            value["reward"][number], value["advantages"][number] = reward, advantage
    write(files, FIRST, value)
    rollout = rollout_json.from_json(value, prompts_of(files))
    shape = RolloutShape.from_recipe(asked, algorithm, devices=1, pad_id=0)
    row(METRICS, 0, **arithmetic.rollout_metrics(rollout, ["answer", "overlong"]))(files)
    for part in (0, 1):
        row(METRICS, part, batch_digest=batch_digest(batch_of(rollout, part, shape, algorithm)))(files)


TURNS = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
OF_REWARDED_TEXTS: Table = of_data("rewarded_texts") | {
    "one reward flipped": (put(FIRST, "rewards.answer.0", lambda found: 1 - found[0]),
                           "recompute.rewards consistency.rollouts"),
    "one reward flipped, and all that follows": (flip_thoroughly, "recompute.rewards"),
    "one advantage moved": (put(FIRST, "advantages.0", lambda found: found[0] + 0.5), "recompute.rewards"),
    "one token changed": (edit(FIRST, another_token), FOUND),
    "two prompts exchanged": (put(FIRST, "prompts", lambda found: [
        found["prompts"][1], found["prompts"][0], *found["prompts"][2:]]), "consistency.rollouts"),
    "a group left out that should be learned from": (edit(FIRST, lambda value: value["kept"].__setitem__(
        value["kept"].index(True), False)), FOUND),
    "a log probability of the sampler": (edit(FIRST, surer_when_drawn), FOUND),
    "the trainer agrees more": (edit(FIRST, trainer_agrees_more), "consistency.rollouts"),
    "a completion that was cut off": (no_stop_token, "recompute.rewards"),
    "an easier prompt": (easier_prompt, "recompute.rewards"),
    "another conversation before a question": (prompts(lambda found: found[0]["item"].update(history=TURNS)),
                                               "recompute.rewards"),
    "trainer and sampler agree to the bit": (agreeing, NAMED),
    "the answer of a question that was never drawn": (undrawn_answer, NAMED),
    "another weight of a reward, in the recipe as well": (other_weight, FOUND),
    "a question fewer": (prompts(lambda found: found[:-1]), FOUND),
}
KINDS = {"small": OF_A_SMALL_RUN, "rewarded_texts": OF_REWARDED_TEXTS, "one_update": of_data("one_update")}
