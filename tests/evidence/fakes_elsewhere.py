"""Fakes about records of other kinds: rewards, pairs, teachers, adapters, samples, packs, real engines.

Each is told in every file that a careful forger would think of.
"""

import itertools
import json
import re
import struct
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from safetensors.numpy import load, save

from tests.evidence.fakes import (
    FOUND,
    NAMED,
    Fake,
    Files,
    Table,
    add,
    attempts,
    digest_of,
    digest_says,
    edit,
    every,
    of_data,
    put,
    scored_again,
    together,
    values_in,
)
from workings.config.load import check_recipe
from workings.data.rows import index_digest
from workings.evidence.verify.checks.rollouts import expected_metrics, trainer_log_probs
from workings.record.layout import top_tokens_file
from workings.rollouts import rollout_json
from workings.rollouts.prompts import Prompt
from workings.rollouts.rollout import rollout_metrics
from workings.samples.selection import PairRule, Selection
from workings.samples.unit import selection_files
from workings.ways.parts.rollout_batch import RolloutShape, batch_of
from workings.ways.parts.rollout_batch import digest_of as batch_digest

Lines = list[dict[str, Any]]
Arrays = dict[str, np.ndarray]


def everywhere(run: str, old: str, new: str) -> Fake:
    """Other words in every text and JSON file of a run."""
    def fake(files: Files) -> None:
        resolved = f"{run}/config/resolved.json"
        before = digest_of(resolved)(files)
        found = [name for name, data in files.items() if name.startswith(f"{run}/") and old.encode() in data
                 and name.endswith((".json", ".jsonl", ".md", ".txt", ".yaml")) and "/tokenizer/" not in name]
        assert found, old
        for name in found:
            files[name] = files[name].replace(old.encode(), new.encode())
        after = digest_of(resolved)(files)
        attempts(run, lambda each: each | ({"config_digest": after} if each.get("config_digest") == before else {}))(
            files)
    return fake


def later(run: str, hours: int) -> Fake:
    """A whole run, and its line in the list, some hours later."""
    time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

    def moved(found: re.Match[str]) -> str:
        when = datetime.fromisoformat(found[0]) + timedelta(hours=hours)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    return together(*(add(f"{run}/{name}", lambda data: time.sub(moved, data.decode()).encode())
                      for name in ("run_manifest.json", "train/events.jsonl")),
                    attempts(run, lambda each: each | {"started_at": time.sub(moved, each["started_at"])}))


R = "a"
METRICS = f"{R}/train/metrics.jsonl"

# --- preference pairs ---------------------------------------------------------------------------------------------

ROWS = f"{R}/data/rows.jsonl"


def indexed(change: Callable[[Lines], Any]) -> Fake:
    """Other rows, and their digest."""
    return together(edit(ROWS, change), digest_says(R, "rows", lambda files: index_digest(
        (each["id"], each["digest"]) for each in values_in(files, ROWS))))


def exchange(found: Lines) -> None:
    """The first pair's completions, the rejected one as the chosen one."""
    found[0]["id"], found[1]["id"] = found[1]["id"], found[0]["id"]
    found[0], found[1] = found[1], found[0]


PREFERENCES = "consistency.preferences"
OF_PAIRS: Table = of_data("pairs") | {
    "a pair the other way round": (indexed(exchange), "consistency.rows"),
    "chosen and rejected rows exchanged": (every(ROWS, lambda each: {
        "id": each["id"].replace("/chosen", "/x").replace("/rejected", "/chosen").replace("/x", "/rejected")}), FOUND),
    "a row without its partner": (indexed(lambda found: found.pop(1) and None), PREFERENCES),
    "one completion, chosen and rejected": (
        indexed(lambda found: found[1].update(digest=found[0]["digest"])), PREFERENCES),
}

# --- a teacher that was asked about what the student drew ---------------------------------------------------------

T = "student"
TEACHER, DRAWN = f"{T}/config/teacher.json", f"{T}/train/rollouts/step_000001.json"
TEACHER_SAYS = digest_says(T, "teacher", digest_of(TEACHER))


def teacher(**values: Any) -> Fake:
    """Other facts about the teacher, and their digest; a function takes the recorded ones."""
    return together(edit(TEACHER, lambda found: found | {
        name: value(found) if callable(value) else value for name, value in values.items()}), TEACHER_SAYS)


def weights(digest: str) -> Callable[[dict[str, Any]], dict[str, str]]:
    return lambda found: dict.fromkeys(found["weights"], digest)


def another_log_prob(value: dict[str, Any]) -> None:
    """The record says that the teacher found a token half a nat likelier."""
    count = sum(length + (stop >= 0) for length, stop in zip(value["lengths"], value["stop_tokens"], strict=True))
    from_trainer, from_sampler, sampler = (rollout_json.unpack_integers(value[name], count) for name in (
        "reference_bits_from_trainer", "trainer_log_probs", "sampler_log_probs"))
    trainer = from_sampler + sampler
    said = (from_trainer + trainer).view("<f4").copy()
    said[np.argmin(said)] += np.float32(0.5)  # an unlikely one: a log probability stays below 0
    value["reference_bits_from_trainer"] = rollout_json.pack_integers(said.view("<i4") - trainer)


def another_log_prob_thoroughly(files: Files) -> None:
    """The same by the most patient forger: divergence and loss of the log, and the batch's digest, follow from it."""
    edit(DRAWN, another_log_prob)(files)
    prompts = {each["id"]: Prompt.from_json(each) for each in values_in(files, f"{T}/data/prompts.jsonl")}
    rollout = rollout_json.from_json(values_in(files, DRAWN), prompts)
    asked = check_recipe(values_in(files, f"{T}/config/resolved.json"), "its recipe")
    algorithm: Any = asked.algorithm
    batch = batch_of(rollout, 0, RolloutShape.from_recipe(asked, algorithm, devices=1, pad_id=0), algorithm)
    # The loss as well: the forger computes what the verifier will.
    said = {name: value for name, value, _ in expected_metrics(
        algorithm.objective, trainer_log_probs(rollout, batch), batch)}
    edit(f"{T}/train/metrics.jsonl", lambda found: found[0].update(
        rollout_metrics(rollout, ()) | {"batch_digest": batch_digest(batch)} | said))(files)


def invented_rewards(value: dict[str, Any]) -> None:
    ones = [1.0] * len(value["seeds"])
    value.update(reward=ones, advantages=ones, rewards={"answer": ones})


OF_A_TEACHER: Table = of_data("teacher") | {
    "a log probability of the teacher": (edit(DRAWN, another_log_prob), "consistency.rollouts"),
    "rewards that no one gave": (edit(DRAWN, invented_rewards), "consistency.rollouts"),
    "other weights of the teacher": (teacher(weights=weights("ab" * 32)), NAMED),
}

# --- a teacher's top tokens of traces -----------------------------------------------------------------------------

TOP = f"{T}/{top_tokens_file(0)}"


def said(change: Callable[[Arrays], Arrays]) -> Fake:
    """Another file of what the teacher said."""
    def fake(files: Files) -> None:
        arrays = {name: x.copy() for name, x in load(files[TOP]).items()}
        files[TOP] = save(arrays | change(arrays))
    return fake


def said_at(name: str, place: tuple[int, int], value: float) -> Fake:
    def change(arrays: Arrays) -> Arrays:
        arrays[name][place] = value
        return {}
    return said(change)


FILE, LOG = "consistency.top_tokens", "recompute.top_tokens"
OF_TOP_TOKENS: Table = of_data("top_tokens") | {
    "an invalid token": (said_at("tokens", (0, 1), 10_000), FILE),
    "a token twice": (said(lambda arrays: {"tokens": np.repeat(arrays["tokens"][:, :1], 4, 1)}), FILE),
    "a likelier one behind": (said_at("log_probs", (0, 3), -1e-3), f"{FILE} {LOG}"),
    "more than all probability": (said(lambda arrays: {"log_probs": 0 * arrays["log_probs"] - 0.7}), f"{FILE} {LOG}"),
    "no number": (said_at("log_probs", (0, 3), -np.inf), f"{FILE} {LOG}"),
    "a position too few": (said(lambda arrays: {name: x[1:] for name, x in arrays.items()}), f"{FILE} {LOG}"),
    "another teacher": (said(lambda arrays: {"log_probs": arrays["log_probs"] - 1}), LOG),
    "something next to the tensors": (said(lambda arrays: {"more": np.zeros(3, np.float32)}), f"{FILE} {LOG}"),
}

# --- adapters -----------------------------------------------------------------------------------------------------

A = "straight"


def without_tensors(words: str) -> Fake:
    """Tensors of some names left out of adapters and moments, without a gap."""
    def fake(files: Files) -> None:
        for name in [each for each in files if each.startswith(f"{A}/checkpoints/") and each.endswith("safetensors")]:
            data = files[name]
            size = struct.unpack("<Q", data[:8])[0]
            metadata = json.loads(data[8:8 + size]).get("__metadata__")
            files[name] = save({key: x for key, x in load(data).items() if words not in key}, metadata)
    return fake


OF_ADAPTERS: Table = {
    "matrices left out": (without_tensors("down_proj"), FOUND),
    "a more famous model": (everywhere(A, '"id":"base"', '"id":"google/gemma-3-27b"'), FOUND),
}

# --- samples ------------------------------------------------------------------------------------------------------

S = "drawn"
KEPT, PAIRS, SELECTION, CONFIG, DRAWS = (f"{S}/{name}" for name in (
    "kept.jsonl", "pairs.jsonl", "selection.json", "eval_config.json", "predictions.jsonl"))


def kept(change: Callable[[Lines], Lines], name: str = KEPT) -> Fake:
    """Other lines of what was kept, or of the pairs, in the form that these files have."""
    return lambda files: files.__setitem__(name, b"".join(
        json.dumps(each, ensure_ascii=False).encode() + b"\n" for each in change(values_in(files, name))))


def keep_a_wrong_sample(files: Files) -> None:
    """In place of a kept one of its prompt, so that every count stays as it is."""
    prompts = {each["id"].partition("/")[0] for each in values_in(files, KEPT)}
    wrong = next(each for each in values_in(files, DRAWS) if each["score"] == 0 and each["id"] in prompts)
    kept(lambda found: [each | {
        "id": f"{wrong['id']}/{wrong['sample']}", "answer": wrong["extracted"], "sample": wrong["sample"],
        "seed": wrong["seed"], "score": 1} if each["id"].startswith(f"{wrong['id']}/") else each for each in found])(
            files)


def selected(files: Files, most_per_prompt: int) -> dict[str, bytes]:
    """What follows from the predictions, with this many kept of a prompt."""
    by_prompt = [[*of_prompt] for _, of_prompt in itertools.groupby(values_in(files, DRAWS), lambda each: each["id"])]
    return selection_files(lambda: by_prompt, values_in(files, CONFIG), Selection(most_per_prompt=most_per_prompt),
                           PairRule(rule="right-wrong"))


def one_row_more_and_its_count(files: Files) -> None:
    """A right sample in the form that the rule left out, because one of its prompt was enough."""
    made = selected(files, 2)
    files[KEPT] = made["kept.jsonl"]
    put(SELECTION, "counts", json.loads(made["selection.json"])["counts"])(files)


def leave_out_a_bad_draw(files: Files) -> None:
    """Everything that follows from the others is rebuilt."""
    edit(DRAWS, lambda found: found.remove(next(each for each in found if each["score"] == 0)))(files)
    scored_again(S)(files)
    files.update({f"{S}/{name}": data for name, data in selected(files, 1).items()})


CHOSEN, ANSWERS = "recompute.selection", "consistency.answers"
OF_SAMPLES: Table = of_data("samples") | {
    "a wrong sample kept": (keep_a_wrong_sample, CHOSEN),
    "one row more and its count": (one_row_more_and_its_count, CHOSEN),
    "a bad draw left out": (leave_out_a_bad_draw, ANSWERS),
    "a prompt fewer": (edit(DRAWS, lambda found: [each for each in found if each["id"] != found[-1]["id"]]), FOUND),
    "another order": (kept(lambda found: found[::-1]), CHOSEN),
    "reasons exchanged": (put(SELECTION, "counts.left_out", lambda value: value["left_out"] | {
        "wrong": value["left_out"]["another form"], "another form": value["left_out"]["wrong"]}), CHOSEN),
    "a pair turned around": (kept(lambda found: [
        found[0] | {"chosen": found[0]["rejected"], "rejected": found[0]["chosen"]}, *found[1:]], PAIRS), CHOSEN),
}

# --- a pack -------------------------------------------------------------------------------------------------------

PRAISE = add("README.md", lambda data: b"It is the best of all.\n" + data)
OF_A_PACK: Table = of_data("small_pack") | {
    "a root in the README": (add("README.md", lambda data: re.sub(
        rb"    [0-9a-f]{64}", b"    " + b"ab" * 32, data, count=1)), "consistency.views"),
    "a pickle as a signature": (add("runs/b/attest/x.pkl", b"\x80\x04N."), "attestation.signed"),
    "praise of another version": (together(put("pack.json", "workings_version", "9.9"), PRAISE), NAMED),
}

# --- runs of the JAX engine, from the repository ------------------------------------------------------------------

Q, OTHER = "runs/with-steps", "runs/answer-only"


def exchanged(*names: str) -> Fake:
    """Files of one run under the names of the other's, and the other way round."""
    def fake(files: Files) -> None:
        for name in [each.removeprefix(f"{Q}/") for each in files if each.startswith(tuple(
                f"{Q}/{name}" for name in names))]:
            files[f"{Q}/{name}"], files[f"{OTHER}/{name}"] = files[f"{OTHER}/{name}"], files[f"{Q}/{name}"]
    return fake


def more_steps(data: bytes) -> bytes:
    """The optimizer says that it took more steps."""
    arrays = load(data)
    return save(arrays | {"step": np.full_like(arrays["step"], 9000)})


def smoother(found: Lines) -> None:
    """Losses, nearer to a line."""
    for before, each in itertools.pairwise(found):
        each["loss"] = (before["loss"] + each["loss"]) / 2


OF_A_REAL_ENGINE: Table = {
    **{f"{name} exchanged": (exchanged(name), FOUND) for name in (
        "README.md", "data/rows.jsonl", "plan/plan.json", "eval/")},
    "logs exchanged": (exchanged("train/training_log.txt"), NAMED),
    "weights exchanged": (exchanged("checkpoints/step_000450/model.safetensors"), NAMED),
    "the optimizer's steps": (add(f"{Q}/checkpoints/step_000450/optimizer.safetensors", more_steps), FOUND),
    "a smoother curve": (edit(f"{Q}/train/metrics.jsonl", smoother), FOUND),
    "an hour earlier": (later(Q, -1), FOUND),
}


# --- held-out items during a run with rewards ---------------------------------------------------------------------

def better_last_look(found: Lines) -> None:
    """The last look has another mark, and the score that follows."""
    marks = "1" + found[-1]["held_out_right"][1:]
    found[-1] |= {"held_out_right": marks, "held_out_score": marks.count("1") / len(marks)}


OF_HELD_OUT_ITEMS: Table = {"another mark": (edit(METRICS, better_last_look), ANSWERS)}
KINDS: dict[str, Table] = {
    "pairs": OF_PAIRS, "teacher": OF_A_TEACHER, "top_tokens": OF_TOP_TOKENS,
    "adapters": OF_ADAPTERS, "samples": OF_SAMPLES, "small_pack": OF_A_PACK, "quickstart": OF_A_REAL_ENGINE,
    "held_out": OF_HELD_OUT_ITEMS}
