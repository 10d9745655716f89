"""Fakes about records of other kinds: rewards, pairs, teachers, adapters, samples, packs, real engines.

Each is told in every file that a careful forger would think of, and sealed again with all sums right. It is found where
a check fails. Else the answer has to name a field or a file *that was changed*; that it names another one of the same
file is not enough. What no record can show, the last sentence of every answer says (``SENTENCE``).
"""

import base64
import itertools
import json
import re
import zlib
from collections.abc import Callable, Mapping
from fnmatch import fnmatchcase
from typing import Any

from tests.evidence import walk
from tests.evidence.fakes import Fake, Files, add, edit, every, gone, put, row, rows, text, together
from workings.record.canonical import line
from workings.record.digest import json_digest

SENTENCE = "the sentence about what is not proved"
FOUND, NAMED, MISSED = "found", "named", "missed"


def recipe_everywhere(run: str, place: str, value: Any, written: tuple[str, str] | None = None) -> Fake:
    """The recipe in all its places: as resolved, in the list of attempts, and as it was written.

    ``written``: an override that the command line is said to have had, and what it was before.
    """
    def fake(files: Files) -> None:
        resolved = json.loads(files[f"{run}/config/resolved.json"])
        before = json_digest(resolved)
        _at(resolved, place, value)
        files[f"{run}/config/resolved.json"] = line(resolved)
        _attempt(files, run, lambda each: each | {"config_digest": json_digest(resolved)}
                 if each.get("config_digest") == before else each)
        words = f"{run}/config/overrides.json"
        override = f"{place}={json.dumps(value)}"
        edit(words, lambda found: found | {"overrides": [*found["overrides"], override]})(files)
        readme = files[f"{run}/README.md"].decode()
        files[f"{run}/README.md"] = re.sub(
            r"(    workings train .*)", lambda found: f"{found[1]} {_quoted(override)}", readme, count=1).encode()
    return fake


def _quoted(word: str) -> str:
    import shlex
    return shlex.quote(word)


def _at(root: Any, place: str, value: Any) -> None:
    *way, last = place.split(".")
    for part in way:
        root = root.setdefault(part, {})
    root[last] = value


def _attempt(files: Files, run: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> None:
    """Lines of the list of attempts, chained again, and the events that name them."""
    from workings.record.attempts import line_digest
    name = f"{run.rpartition('/')[0]}/attempts.jsonl".lstrip("/")
    known: dict[str, str] = {}
    found = []
    for old in [json.loads(each) for each in files[name].splitlines()]:
        new = change(dict(old))
        if isinstance(new.get("after"), str):
            new["after"] = known.get(new["after"], new["after"])
        known[line_digest(old)] = line_digest(new)
        found.append(new)
    files[name] = b"".join(map(line, found))
    every(f"{run}/train/events.jsonl", lambda each: {"attempt": known.get(each["attempt"], each["attempt"])}
          if isinstance(each.get("attempt"), str) else {})(files)


def digest_told(run: str, name: str, value: Callable[[Files], str]) -> Fake:
    """A digest of the data."""
    return lambda files: put(f"{run}/data/digests.json", name, value(files))(files)


def everywhere(run: str, old: str, new: str) -> Fake:
    """Other words in every text and JSON file of a run."""
    def fake(files: Files) -> None:
        before = json_digest(json.loads(files[f"{run}/config/resolved.json"]))
        found = [name for name, data in files.items() if name.startswith(f"{run}/") and old.encode() in data
                 and name.endswith((".json", ".jsonl", ".md", ".txt", ".yaml")) and "/tokenizer/" not in name]
        assert found, old
        for name in found:
            files[name] = files[name].replace(old.encode(), new.encode())
        resolved = json.loads(files[f"{run}/config/resolved.json"])
        _attempt(files, run, lambda each: each | {"config_digest": json_digest(resolved)}
                 if each.get("config_digest") == before else each)
    return fake


def later(run: str, hours: int) -> Fake:
    """A whole run, and its line in the list, some hours later."""
    from datetime import datetime, timedelta
    time = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z")

    def moved(found: re.Match[str]) -> str:
        when = datetime.fromisoformat(found[0]) + timedelta(hours=hours)
        return when.isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def fake(files: Files) -> None:
        for name in (f"{run}/run_manifest.json", f"{run}/train/events.jsonl"):
            files[name] = time.sub(moved, files[name].decode()).encode()
        _attempt(files, run, lambda each: each | {"started_at": time.sub(moved, each["started_at"])})
    return fake


def packed(values: list[int]) -> str:
    """Numbers as a rollout holds them."""
    import numpy as np
    planes = np.ascontiguousarray(np.array(values, "<i4").view(np.uint8).reshape(-1, 4).T)
    return base64.b85encode(zlib.compress(planes.tobytes(), 6)).decode()


# --- a run that learned from rewards ------------------------------------------------------------------------------

R = "a"
ROLLOUT = f"{R}/train/rollouts/step_000001.json"
PROMPTS, REWARDS = f"{R}/data/prompts.jsonl", f"{R}/config/rewards.json"


def prompts_digest(files: Files) -> str:
    from workings.rollouts.prompts import read_recorded_prompts
    return read_recorded_prompts([json.loads(each) for each in files[PROMPTS].splitlines()],
                        json.loads(files[f"{R}/config/resolved.json"])["seed"]).digest


def undrawn_answer(files: Files) -> None:
    """Another expected answer of a question that was never drawn, or of the last one."""
    drawn = {name for file in files if "/rollouts/" in file for name in json.loads(files[file])["prompts"]}
    found = [json.loads(each) for each in files[PROMPTS].splitlines()]
    one = next((each for each in found if each["id"] not in drawn), found[-1])
    one["item"]["expected_answer"] = "42"
    files[PROMPTS] = b"".join(map(line, found))
    digest_told(R, "prompts", prompts_digest)(files)


def agreeing(files: Files) -> None:
    """The trainer agrees with the sampler to the bit: no mismatch, in the rollouts and in the log."""
    steps = set()
    for name in [each for each in files if "/rollouts/" in each]:
        value = json.loads(files[name])
        kept = [number for number, keep in enumerate(value["kept"]) if keep]
        size = len(value["lengths"]) // len(value["kept"])
        count = sum(value["lengths"][at] + (value["stop_tokens"][at] >= 0)
                    for group in kept for at in range(group * size, (group + 1) * size))
        files[name] = line(value | {"trainer_log_probs": packed([0] * count)})
        steps.add(value["step"])
    every(f"{R}/train/metrics.jsonl", lambda each: {
        "mismatch": 0, "mismatch_most": 0, "mismatch_ratio": 1} if each["step"] in steps and "mismatch" in each else {}
          )(files)


def other_weight(files: Files) -> None:
    """Another weight of the first reward, in the recipe, next to it and in the digests."""
    found = json.loads(files[REWARDS])
    found[0]["weight"] = 2.0
    files[REWARDS] = line(found)
    resolved = json.loads(files[f"{R}/config/resolved.json"])["rewards"]
    recipe_everywhere(R, "rewards", [resolved[0] | {"weight": 2.0}, *resolved[1:]])(files)
    digest_told(R, "rewards", lambda now: json_digest(json.loads(now[REWARDS])))(files)


OF_REWARDS: dict[str, tuple[Fake, str]] = {
    "a better reward in every line": (every(f"{R}/train/metrics.jsonl", lambda each: {
        "reward": each["reward"] + 0.25} if "reward" in each else {}), FOUND),
    "fewer cut off": (every(f"{R}/train/metrics.jsonl", lambda each: {"truncated": 0} if each.get("truncated") else
                            {"completion_tokens": 1}), FOUND),
    "a smaller divergence": (every(f"{R}/train/metrics.jsonl", lambda each: {"mismatch": 0.0} if "mismatch" in each
                                   else {}), FOUND),
    "trainer and sampler agree to the bit": (agreeing, NAMED),
    "the answer of a question that was never drawn": (undrawn_answer, NAMED),
    "another weight of a reward": (other_weight, FOUND),
    "no rollout of the last updates": (lambda files: files.pop(max(
        each for each in files if "/rollouts/" in each)) and None, FOUND),
    "a rollout twice": (lambda files: files.__setitem__(f"{R}/train/rollouts/step_000099.json", files[ROLLOUT]), FOUND),
    "a rollout of nothing more": (edit(ROLLOUT, lambda value: value | {"note": "best of all"}), NAMED),
    "a question fewer": (together(rows(PROMPTS, lambda found: found[:-1]), digest_told(R, "prompts", prompts_digest)),
                         NAMED),
    "a README with a better end": (lambda files: add(f"{R}/README.md", re.sub(
        rb"(mean reward [\d.-]+ at first, )[\d.-]+", rb"\g<1>0.999", files[f"{R}/README.md"]))(files), FOUND),
}

# --- preference pairs ---------------------------------------------------------------------------------------------

OF_PAIRS: dict[str, tuple[Fake, str]] = {
    "another accuracy": (every(f"{R}/train/metrics.jsonl", lambda each: {
        "accuracy": abs(each["accuracy"] - 0.5)}), FOUND),
    "a wider margin": (every(f"{R}/train/metrics.jsonl", lambda each: {"margin": each["margin"] + 1}), FOUND),
    "chosen and rejected rows exchanged": (every(f"{R}/data/rows.jsonl", lambda each: {
        "id": each["id"].replace("/chosen", "/x").replace("/rejected", "/chosen").replace("/x", "/rejected")}), FOUND),
    "a smaller gradient everywhere": (every(f"{R}/train/metrics.jsonl", lambda each: {
        "grad_norm": each["grad_norm"] / 10}), NAMED),
}

# --- a teacher ----------------------------------------------------------------------------------------------------

T = "student"


def _teacher(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fake:
    def fake(files: Files) -> None:
        edit(f"{T}/config/teacher.json", lambda value: value | change(value))(files)
        digest_told(T, "teacher", lambda now: json_digest(json.loads(now[f"{T}/config/teacher.json"])))(files)
    return fake


OF_A_TEACHER: dict[str, tuple[Fake, str]] = {
    "a more famous teacher": (_teacher(lambda value: {"run": "best"} if "run" in value else {"id": "best/teacher"}),
                              NAMED),
    "other weights of the teacher": (_teacher(lambda value: {"weights": dict.fromkeys(value["weights"], "ab" * 32)}),
                                     NAMED),
    "a student that came closer": (every(f"{T}/train/metrics.jsonl", lambda each: {
        "kl_teacher": each["kl_teacher"] / 2} if "kl_teacher" in each else {}), FOUND),
    "a teacher in another precision": (together(
        _teacher(lambda value: {"precision": "bf16"}), recipe_everywhere(T, "algorithm.teacher_precision", "bf16")),
        NAMED),
}

# --- adapters -----------------------------------------------------------------------------------------------------

A = "straight"
ADAPTERS = f"{A}/checkpoints/step_000004/adapter_model.safetensors"


def nothing_learned(files: Files) -> None:
    """Adapters of zeros: nothing was trained."""
    import struct
    data = files[ADAPTERS]
    begin = 8 + struct.unpack("<Q", data[:8])[0]
    files[ADAPTERS] = data[:begin] + bytes(len(data) - begin)


def _without(words: str) -> Fake:
    """Tensors of some names left out of adapters and moments, without a gap."""
    import struct

    def fake(files: Files) -> None:
        for name in [each for each in files if each.startswith(f"{A}/checkpoints/") and each.endswith("safetensors")]:
            data = files[name]
            size = struct.unpack("<Q", data[:8])[0]
            header, body, at, kept = json.loads(data[8:8 + size]), data[8 + size:], 0, b""
            new = {}
            for tensor, entry in sorted(((key, each) for key, each in header.items() if key != "__metadata__"),
                                        key=lambda each: each[1]["data_offsets"]):
                if words in tensor:
                    continue
                first, last = entry["data_offsets"]
                kept += body[first:last]
                new[tensor] = entry | {"data_offsets": [at, at + last - first]}
                at += last - first
            text = json.dumps({key: header[key] for key in header if key == "__metadata__"} | new,
                              separators=(",", ":")).encode()
            files[name] = struct.pack("<Q", len(text)) + text + kept
    return fake


OF_ADAPTERS: dict[str, tuple[Fake, str]] = {
    "matrices left out": (_without("down_proj"), FOUND),
    "adapters of zeros": (nothing_learned, NAMED),
    "a more famous model": (everywhere(A, '"id":"base"', '"id":"google/gemma-3-27b"'), FOUND),
    "other weights to begin with": (edit(f"{A}/run_manifest.json", lambda value: value | {
        "weight_digests": dict.fromkeys(value["weight_digests"], "ab" * 32)}), NAMED),
    "some hours later": (later(A, -2), NAMED),
    "another processor everywhere": (lambda files: everywhere(A, json.loads(files[f"{A}/env/device_checks.json"])[
        "kind"], "NVIDIA-free CPU 9000")(files), SENTENCE),
}

# --- samples ------------------------------------------------------------------------------------------------------

S = "drawn"
OF_SAMPLES: dict[str, tuple[Fake, str]] = {
    "colder": (put(f"{S}/eval_config.json", "decoding.temperature", 0.2), NAMED),
    "longer": (put(f"{S}/eval_config.json", "decoding.max_new_tokens", 4096), NAMED),
    "another seed of drawing": (put(f"{S}/eval_config.json", "decoding.seed", 1234), FOUND),
    "of a larger model": (edit(f"{S}/eval_config.json", lambda value: value | {
        "model": {"run": "teacher-70b", "step": 9}}), FOUND),
    "kept for another reason": (edit(f"{S}/selection.json", lambda value: value | {
        "counts": value["counts"] | {"left_out": {"too_long": sum(value["counts"]["left_out"].values())}}}),
        FOUND),
    "another rule": (edit(f"{S}/selection.json", lambda value: value | {
        "selection": value["selection"] | {"keep": "all"}}), FOUND),
    "a kept answer in other words": (row(f"{S}/kept.jsonl", 0, answer="43"), FOUND),
    "kept ones in another order": (rows(f"{S}/kept.jsonl", lambda found: found[::-1]), FOUND),
    "a bad draw that no one sees": (rows(f"{S}/predictions.jsonl", lambda found: found[:-1]), FOUND),
    "a prompt fewer": (rows(f"{S}/predictions.jsonl", lambda found: [
        each for each in found if each["id"] != found[-1]["id"]]), FOUND),
}

# --- a pack -------------------------------------------------------------------------------------------------------


def one_evaluation_fewer(files: Files) -> None:
    """The evaluation of a run taken out of a pack, of its list and of what was made of it."""
    gone("runs/a/eval/")(files)
    edit("pack.json", lambda value: value | {"units": [
        each for each in value["units"] if not each["place"].startswith("runs/a/eval")]})(files)
    files.pop("compare.json", None)


def sides_exchanged(files: Files) -> None:
    """The comparison the other way round, as it was computed."""
    edit("compare.json", lambda value: value | {"a": value["b"], "b": value["a"]})(files)


OF_A_PACK: dict[str, tuple[Fake, str]] = {
    "a licence": (edit("licences.json", lambda value: value | {"software": value["software"] | {"licence": "MIT"}}),
                  NAMED),
    "outputs of a notebook": (add("notebook/train.ipynb", b'{"cells":[{"outputs":["98 %"]}],"nbformat":4}\n'), NAMED),
    "a command in the README": (text("README.md", "--out again/a", "--out again/a seed=3"), FOUND),
    "a root in the README": (lambda files: add("README.md", re.sub(
        rb"    [0-9a-f]{64}", b"    " + b"ab" * 32, files["README.md"], count=1))(files), FOUND),
    "a recipe": (lambda files: add("recipes/a.yaml", files["recipes/a.yaml"] + b"# tuned by no one\n")(files), FOUND),
    "a version": (put("pack.json", "workings_version", "9.9"), NAMED),
    "a card of a third run": (lambda files: add("model_cards/c.md", files["model_cards/a.md"])(files), FOUND),
    "a RESULTS.md": (add("RESULTS.md", b"We reach 98 %.\n"), NAMED),
    "the last attempt left out": (rows("runs/attempts.jsonl", lambda found: found[:-1]), FOUND),
    "the first attempt left out": (rows("runs/attempts.jsonl", lambda found: found[1:]), FOUND),
    "an evaluation taken out": (one_evaluation_fewer, FOUND),
    "the sides exchanged": (sides_exchanged, FOUND),
    "another margin": (edit("compare.json", lambda value: value | {"verdict": "better"}), FOUND),
    "weights said to be elsewhere": (put("pack.json", "weights", "digest"), FOUND),
}

# --- runs of the JAX engine, from the repository -------------------------------------------------------------------

Q, OTHER = "runs/with-steps", "runs/answer-only"


def exchanged(name: str) -> Fake:
    """A file of one run under the name of the other's, and the other way round."""
    def fake(files: Files) -> None:
        files[f"{Q}/{name}"], files[f"{OTHER}/{name}"] = files[f"{OTHER}/{name}"], files[f"{Q}/{name}"]
    return fake


def evaluations_exchanged(files: Files) -> None:
    for name in [each for each in files if each.startswith(f"{Q}/eval/")]:
        exchanged(name.removeprefix(f"{Q}/"))(files)


def optimizer_step(files: Files) -> None:
    """The optimizer says that it took more steps."""
    import struct
    name = f"{Q}/checkpoints/step_000450/optimizer.safetensors"
    data = files[name]
    size = struct.unpack("<Q", data[:8])[0]
    first, last = json.loads(data[8:8 + size])["step"]["data_offsets"]
    at = 8 + size + first
    files[name] = data[:at] + (9000).to_bytes(last - first, "little") + data[at + last - first:]


def smoother(files: Files) -> None:
    """Losses, nearer to a line, in the metrics and in the training log."""
    found = [json.loads(each) for each in files[f"{Q}/train/metrics.jsonl"].splitlines()]
    for before, each in itertools.pairwise(found):
        each["loss"] = (before["loss"] + each["loss"]) / 2
    files[f"{Q}/train/metrics.jsonl"] = b"".join(map(line, found))
    by_step = {each["step"]: each["loss"] for each in found}
    log = files[f"{Q}/train/training_log.txt"].decode()
    files[f"{Q}/train/training_log.txt"] = re.sub(
        r"^(step (\d+)/\d+  loss )[\d.]+", lambda found: f"{found[1]}{by_step[int(found[2])]:.4f}", log,
        flags=re.MULTILINE).encode()


OF_A_REAL_ENGINE: dict[str, tuple[Fake, str]] = {
    "READMEs exchanged": (exchanged("README.md"), FOUND),
    "logs exchanged": (exchanged("train/training_log.txt"), FOUND),
    "rows exchanged": (exchanged("data/rows.jsonl"), FOUND),
    "plans exchanged": (exchanged("plan/plan.json"), FOUND),
    "weights exchanged": (exchanged("checkpoints/step_000450/model.safetensors"), NAMED),
    "evaluations exchanged": (evaluations_exchanged, FOUND),
    "the optimizer's steps": (optimizer_step, FOUND),
    "a smoother curve": (smoother, FOUND),
    "an hour earlier": (later(Q, -1), NAMED),
}
KINDS: dict[str, dict[str, tuple[Fake, str]]] = {
    "rewards": OF_REWARDS, "pairs": OF_PAIRS, "teacher": OF_A_TEACHER, "adapters": OF_ADAPTERS, "samples": OF_SAMPLES,
    "packs": OF_A_PACK, "quickstart": OF_A_REAL_ENGINE}


def told(files: Files, honest: walk.Verification, fake: Fake) -> tuple[list[str], list[str]]:
    """Checks that fail for a fake, and changed fields that the answer names."""
    changed = dict(files)
    fake(changed)
    assert changed != files, "nothing was changed"
    sealed = walk.resealed(changed)
    found = walk.verified(sealed)
    fields = changed_fields(files, changed)
    named = [one.text for one in found.unchecked_fields if any(
        one.unit in (unit, unit or ".") and one.file == file and _covers(one.field, field)
        for unit, file, field in fields)]
    # What was taken away or could not be checked any more is named by the checks.
    before = {check.id: check.verdict for check in honest.checks}
    named += [check.id for check in found.checks if check.verdict == "not_checked" and before.get(check.id) == "passed"]
    return sorted(check.id for check in found.checks if check.verdict == "failed"), named


def _covers(said: str, field: str) -> bool:
    return said in ("", field) or fnmatchcase(field, f"{said}.*") or fnmatchcase(said, f"{field}.*") or said in (
        "values", "comments", "numbers", "header", "steps", "others")


def changed_fields(before: Files, after: Files) -> set[tuple[str, str, str]]:
    """Unit, file and field of everything that differs; an empty field is the whole file."""
    found = set()
    for name in before.keys() | after.keys():
        if before.get(name) == after.get(name) or name.endswith(("SEAL.json", "SHA256SUMS", "COMMIT.json")):
            continue
        there = after if name in after else before
        unit, _, file = walk.unit_of(name, there)
        one, other = (_fields(files.get(name, b""), name) for files in (before, after))
        found |= {(unit, file, field) for field in one.keys() | other.keys() if one.get(field) != other.get(field)}
    return found


def _fields(data: bytes, name: str) -> Mapping[str, Any]:
    """Values by field, those of all lines together; of other files the whole."""
    if not data or not name.endswith((".json", ".jsonl")):
        return {"": data}
    found: dict[str, list[Any]] = {}
    for value in map(json.loads, data.splitlines() if name.endswith("l") else [data]):
        for place, leaf in _all_leaves(value, ()):
            found.setdefault(walk.pattern(place), []).append(json.dumps(leaf))
    return found


def _all_leaves(value: Any, place: tuple[Any, ...]) -> Any:
    if isinstance(value, dict) and value and set(value) != {"absent"}:
        for key, inner in value.items():
            yield from _all_leaves(inner, (*place, key))
    elif isinstance(value, list) and value:
        for inner in value:
            yield from _all_leaves(inner, (*place, 0))
    else:
        yield place, value

