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
    copy,
    digest_of,
    digest_says,
    edit,
    every,
    gone,
    moved,
    put,
    recipe,
    recipe_everywhere,
    row,
    scored_again,
    together,
    values_in,
    without,
    write,
)
from tests.record import synthetic
from workings.data.rows import prompt_digest
from workings.rollouts import rollout_json
from workings.rollouts.prompts import Prompt, read_recorded_prompts
from workings.rollouts.rollout import rollout_metrics
from workings.ways.parts.rollout_batch import RolloutShape, batch_of
from workings.ways.parts.rollout_batch import digest_of as batch_digest

RUN = "tiny"
MANIFEST, METRICS, EVENTS, LOG = (f"{RUN}/{name}" for name in (
    "run_manifest.json", "train/metrics.jsonl", "train/events.jsonl", "train/training_log.txt"))
ROWS, DIGESTS, RECIPE, CHECKS = (f"{RUN}/{name}" for name in (
    "data/rows.jsonl", "data/digests.json", "config/resolved.json", "env/device_checks.json"))
EVAL = f"{RUN}/eval/test"
PREDICTIONS, CARD, ASKED = (f"{EVAL}/{name}" for name in (
    "predictions.jsonl", "eval_summary.json", "eval_config.json"))
LAST, BEFORE = f"{RUN}/checkpoints/step_000006", f"{RUN}/checkpoints/step_000004"
GPU = edit(CHECKS, lambda found: found | {"platform": "gpu", "kind": "NVIDIA H200"})
Lines = list[dict[str, Any]]


def first_wrong(found: Lines) -> None:
    """The first wrong answer called right."""
    next(each for each in found if each["score"] == 0)["score"] = 1


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


OF_A_SMALL_RUN: Table = {
    # --- scores and scorecards
    "a score and the card": (together(edit(PREDICTIONS, first_wrong), scored_again(EVAL)), "recompute.scores"),
    "the card only": (put(CARD, "scorecard.overall", lambda card: card["overall"] | {"correct": 12, "mean": 1}),
                      "recompute.scorecard"),
    "the hardest dropped": (together(
        edit(PREDICTIONS, lambda found: [each for each in found if each["score"] == 1]), scored_again(EVAL),
        put(ASKED, "items.count", 8)), "recompute.items"),
    "the easy twice": (edit(PREDICTIONS, lambda found: [*found, *(each for each in found if each["score"])]),
                       "recompute.scorecard"),
    "sections": (row(PREDICTIONS, 0, section="new"),
                 "recompute.scorecard: $.scorecard.per_section.new is on one side only"),
    "completions from elsewhere": (put(ASKED, "source", {
        "kind": "predictions", "file": "p.jsonl", "digest": "ab" * 32, "samples": 1}), "consistency.made_from"),
    "no card": (put(CARD, "", {"schema": "eval_summary/1"}), "recompute.scorecard: $.scorecard is on one side only"),
    "no predictions": (add(PREDICTIONS, b""), "recompute.items: the predictions give '0'"),
    "score that is none": (row(PREDICTIONS, 0, score="1"), "form.schema: no id or no score"),
    "summary of no kind": (put(CARD, "", {"schema": "x"}), "form.schema: schema is 'x'"),
    "no rule": (without(PREDICTIONS, "rule", 0),
                "recompute.scorecard: cannot be summarized"),
    "evaluation where a report should be": (moved(f"{EVAL}/", f"{RUN}/report/"),
                                            "integrity.files: is in no sums"),
    # --- steps and times
    "a step left out": (edit(METRICS, lambda found: found[:2] + found[3:]), "consistency.steps"),
    "order of steps": (edit(METRICS, lambda found: found[::-1]), "consistency.steps: is step 6"),
    "too few steps": (put(RECIPE, "training.steps", 7), "consistency.steps: complete, with 6 of 7 steps"),
    "too many steps": (put(RECIPE, "training.steps", 5), "consistency.steps: 6 steps done, 5 planned"),
    "status": (put(MANIFEST, "status", "failed"), "consistency.steps: the seal says complete, the manifest failed"),
    "nothing supervised": (every(METRICS, lambda each: {"supervised_tokens": 0}), "form.schema"),
    "more supervised than real": (row(METRICS, 0, tokens=1), "form.schema: of 1 tokens"),
    "rate above the peak": (row(METRICS, 0, learning_rate=0.5),
                            "consistency.learning_rate: step 1: 0.5, the schedule gives 0.01"),
    "rate below the constant": (row(METRICS, 0, learning_rate=0.001),
                                "consistency.learning_rate: step 1: 0.001, the schedule gives 0.01"),
    "more time than there was": (row(METRICS, 0, seconds=3600), "consistency.time_and_memory: s of steps in 9.0 s"),
    "events backwards": (row(EVENTS, 0, time="2099-01-01T00:00:00.000Z"),
                         "consistency.time_and_memory: event 2 is earlier than event 1"),
    "no time zone": (row(EVENTS, 0, time="2026-01-01T00:00:00"), "consistency.time_and_memory: without a time zone"),
    "no moment": (row(EVENTS, 0, time="today"), "consistency.time_and_memory: not a moment"),
    "event without a kind": (without(EVENTS, "kind", 0),
                             "form.schema: event 1 has no kind or no time"),
    "peak above the limit": (add(f"{RUN}/plan/plan.json", b'{"limit_bytes":1000}\n'),
                             "consistency.time_and_memory: on a device with 1,000"),
    "peak below the log": (put(f"{RUN}/plan/measured.json", "", {"measured_peak_bytes": 5}),
                           "consistency.time_and_memory: 123,456,789 in the log"),
    "no rate in the recipe": (recipe(RUN, "training", {"steps": 6}), NAMED),
    # --- rows and their order
    "no digests of questions": (without(ROWS, "prompt_digest"), NAMED),
    "another seed": (put(RECIPE, "seed", 8), "consistency.rows"),
    "another row": (row(ROWS, 0, digest="ab" * 32), "consistency.rows: another batch than seed"),
    "a question trained on": (asked_prompt, "consistency.disjoint"),
    "no digests": (put(DIGESTS, "", {}), "consistency.rows: data/digests.json names None"),
    "row without learning": (row(ROWS, 0, supervised_tokens=0), "consistency.rows: rows without a supervised token"),
    "row without an id": (without(ROWS, "id", 0), "consistency.rows: no id"),
    "row without a count": (row(ROWS, 0, tokens=-1), "consistency.rows: tokens is no count"),
    "row twice": (edit(ROWS, lambda found: [*found, found[0]]), "consistency.rows: is there twice"),
    "row too long": (row(ROWS, 0, tokens=97), "consistency.rows: longer than data.max_length"),
    "no rows": (add(ROWS, b""), "consistency.rows: no rows"),
    "batch of nothing": (put(RECIPE, "batch.micro_batch", 0), "consistency.rows: greater than or equal to 1"),
    # --- devices, engine, attempts, checkpoints
    "a GPU": (together(GPU, put(RECIPE, "device", "gpu")), "consistency.device"),
    "device checks are a list": (put(CHECKS, "", []), "consistency.device: not a JSON object"),
    "device check failed": (put(CHECKS, "passed", False), "consistency.device: check failed"),
    "device elsewhere": (put(CHECKS, "platform", "tpu"), "consistency.device: cpu was asked for, tpu was used"),
    "devices unchecked": (put(CHECKS, "devices", []), "consistency.device: 0 were checked"),
    "other devices checked": (put(CHECKS, "devices", ["TPU_0"]), "consistency.device: 'TPU_0' is no cpu"),
    "engine version": (put(MANIFEST, "engine_distribution.version", "9"),
                       "consistency.engine: engine from workings 9"),
    "attempts of another recipe": (add("attempts.jsonl", b'{"run":"tiny","config_digest":"0"}\n'),
                                   "consistency.attempts: lists no start of 'tiny'"),
    "attempts torn in the middle": (add("attempts.jsonl", b'{"run":\n{}\n'),
                                    "consistency.attempts: line 1 is damaged: not JSON"),
    "the state of another step": (copy(f"{BEFORE}/state.json", f"{LAST}/state.json"), "consistency.checkpoints"),
    "uncommitted checkpoint": (gone(f"{LAST}/COMMIT.json"), "integrity.checkpoints: COMMIT.json is missing"),
    "folder that is no checkpoint": (moved(f"{LAST}/", f"{RUN}/checkpoints/last/"),
                                     "integrity.checkpoints: not a checkpoint's name"),
    # --- contents
    "a template filled in": (put(MANIFEST, "model_id", "<your model here>"), "form.placeholders"),
    "one-digit digest": (put(MANIFEST, "commit_sha", "0" * 40), "form.placeholders: $.commit_sha"),
    "null": (put(f"{RUN}/env/env_info.json", "gpu", None), "form.json"),
    "a token": (add(LOG, b"HF_TOKEN is hf_" + b"x" * 34 + b"\n"), "content.private"),
    "a home": (add(LOG, b"writing /home/ada/runs/a\n"), "content.private"),
}
CONSISTENT: dict[str, Fake] = {
    "the whole run on another day": together(
        every(EVENTS, lambda each: {"time": "2025-01-01T10:00:00.000Z"}),
        put(MANIFEST, "finished_at", "2025-01-01T10:00:09.000Z")),
    "all losses": every(METRICS, lambda each: {"loss": 1.0 / each["step"]}),
    "the weights": add(f"{LAST}/model.safetensors", synthetic.safetensors_bytes([9.0] * 64)),
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
    row(METRICS, 0, **rollout_metrics(rollout, ["answer", "overlong"]))(files)
    for part in (0, 1):
        row(METRICS, part, batch_digest=batch_digest(batch_of(rollout, part, shape, algorithm)))(files)


def parameters(change: dict[str, Any]) -> Fake:
    """Another second reward, in its own file and with its digest, not in the recipe."""
    return together(put(REWARDS, "1", lambda found: found[1] | change),
                    digest_says(RUN, "rewards", digest_of(REWARDS)))


TURNS = [{"role": "user", "content": "1+1?"}, {"role": "assistant", "content": "2"}]
OF_REWARDED_TEXTS: Table = {
    "one reward flipped": (put(FIRST, "rewards.answer.0", lambda found: 1 - found[0]),
                           "recompute.rewards consistency.rollouts"),
    "one reward flipped, all that follows made again": (flip_thoroughly, "recompute.rewards"),
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
    "another weight of a reward": (parameters({"weight": 0.25}), "consistency.prompts"),
    "a question that is measured with as well, hidden": (row(PROMPTS, 0, prompt_digest="ab" * 32),
                                                         "consistency.prompts"),
    "trainer and sampler agree to the bit": (agreeing, NAMED),
    "the answer of a question that was never drawn": (undrawn_answer, NAMED),
    "another weight of a reward, in the recipe as well": (other_weight, FOUND),
    "a question fewer": (prompts(lambda found: found[:-1]), FOUND),
    "a rollout twice": (copy(FIRST, f"{RUN}/train/rollouts/step_000099.json"), FOUND),
    "no rollout of the last updates": (lambda files: files.pop(max(each for each in files if "/rollouts/" in each)),
                                       FOUND),
    "fewer cut off": (every(METRICS, lambda each: {"truncated": 0} if each.get("truncated") else {}), FOUND),
    "no rollouts": (gone(f"{RUN}/train/rollouts/"), "consistency.rollouts"),
    "a better reward in the log": (every(METRICS, lambda each: {"reward": 1.0} if "reward" in each else {}),
                                   "consistency.rollouts"),
    # Without an algorithm no one looks for rollouts, and then the rows are missing.
    "imitation instead": (edit(RECIPE, lambda found: found | {"algorithm": {"name": "sft"}, "rewards": []}),
                          "consistency.rows"),
    "the next rollout begins elsewhere": (put(FIRST, "after", lambda found: found["after"] | {
        "batch": 0, "epoch": 0}), "consistency.rollouts"),
}
OF_ONE_UPDATE: Table = {
    f"{name} {value}": (put(METRICS, f"1.{name}", value), "consistency.rollouts") for name, value in (
    ("loss", 5.0), ("clip_fraction", 0.5), ("kl_behavior", -0.1), ("mismatch_ratio", 1.0), ("drawing_seconds", 999.0),
    ("entropy", "low"))}
"""Numbers of an update that do not follow from the recorded log probabilities."""
KINDS = {"small": OF_A_SMALL_RUN, "rewarded_texts": OF_REWARDED_TEXTS, "one_update": OF_ONE_UPDATE}
