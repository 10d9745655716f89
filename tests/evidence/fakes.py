"""Fakes: changes of a record's files in memory, and what the answer says once everything is sealed again.

A place is written as in `checks.toml`: keys with dots between them. For what is in a list, and for the lines of a file:
a number, ``*`` (all), ``key=value`` or ``key?`` (those with it). An empty place is the whole file.
"""

import json
import re
import shlex
import struct
import tomllib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.evidence import walk
from workings.errors import RecordError
from workings.evaluation.predictions import summarize
from workings.evidence.verify.checks.run_consistency import views_of
from workings.evidence.verify.limits import MALFORMED
from workings.evidence.verify.load import load
from workings.record.attempts import line_digest
from workings.record.canonical import line
from workings.record.digest import json_digest
from workings.scoring.items import item_from_json, items_digest

Files = dict[str, bytes]
Fake = Callable[[Files], Any]
Table = dict[str, tuple[Fake, str]]
"""By name a fake and what finds it: ids of checks, of one also words (``id: words``), or one of the following."""
FOUND, NAMED = "found", "named"
"""Any check; none, and the answer names a field that was changed, or a check that is not made any more."""
VIEWS = ("README.md",)
"""Files that are made of others."""
DIGESTS = ("config_digest", "after", "attempt")
"""Fields that are."""
WHOLE = ("values", "comments", "numbers", "header", "steps", "others")
"""Words of the answer for parts of files that have no fields."""


# --- changes ------------------------------------------------------------------------------------------------------

def values_in(files: Files, name: str) -> Any:
    """The value of a JSON file, or the list of a file's lines."""
    return [json.loads(text) for text in files[name].splitlines()] if name.endswith("l") else json.loads(files[name])


def write(files: Files, name: str, value: Any) -> None:
    """Put a value, or a list of lines, in the place of a file."""
    files[name] = b"".join(map(line, value if name.endswith("l") and isinstance(value, list) else [value]))


def put(name: str, place: str | walk.Place, value: Any) -> Fake:
    """Another value at a place; a function takes what holds the place, or the whole file, which it may change."""
    if not place:
        return edit(name, value if callable(value) else lambda found: value)

    def change(holder: Any, key: Any) -> None:
        holder[key] = value(holder) if callable(value) else value
    return at(name, place, change)


def at(name: str, place: str | walk.Place, change: Callable[[Any, Any], object]) -> Fake:
    """Call a function with what holds a place of a file, and the key or number in it."""
    *way, last = place.split(".") if isinstance(place, str) else place

    def fake(files: Files) -> None:
        root = values_in(files, name)
        holders = [root]
        for part in way:
            holders = [holder[key] for holder in holders for key in _keys(holder, part)]
        for holder in holders:
            for key in reversed(_keys(holder, last)):  # from behind: it may be removed
                change(holder, key)
        write(files, name, root)
    return fake


def _keys(holder: Any, part: Any) -> list[Any]:
    """What a part of a place means: of an object the key; of a list a number, all, those with a value or a key."""
    if isinstance(holder, dict):
        return [part]
    key, has_value, value = str(part).partition("=")
    if has_value:
        return [number for number, each in enumerate(holder) if str(each.get(key)) == value]
    if key.endswith("?"):
        return [number for number, each in enumerate(holder) if key[:-1] in each]
    return [*range(len(holder))] if part == "*" else [int(part)]


def edit(name: str, change: Callable[[Any], Any]) -> Fake:
    """Change a file's value (of lines: the list of them) in place, or replace it by what comes back."""
    def fake(files: Files) -> None:
        root = values_in(files, name)
        changed = change(root)
        write(files, name, root if changed is None else changed)
    return fake


def every(name: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fake:
    """Other values in every line."""
    return edit(name, lambda found: [each | change(each) for each in found])


def without(name: str, place: str) -> Fake:
    """A key left out of an object, or of those that have it, or a line of a list."""
    return at(name, place, lambda holder, key: holder.pop(*(key, None) if isinstance(holder, dict) else [key]))


def text(name: str, old: str, new: str) -> Fake:
    """Other words in a text."""
    def fake(files: Files) -> None:
        assert old.encode() in files[name], (name, old)
        files[name] = files[name].replace(old.encode(), new.encode())
    return fake


def add(name: str, data: bytes | Callable[[bytes], bytes]) -> Fake:
    """Other bytes of a file; a function takes the old ones."""
    return lambda files: files.__setitem__(name, data(files[name]) if callable(data) else data)


def copy(old: str, new: str) -> Fake:
    """A file, or a folder of them, under another name as well."""
    return lambda files: files.update({new + name.removeprefix(old): data for name, data in files.items()
                                       if name.startswith(old)})


def gone(*names: str) -> Fake:
    """Files, or folders of them, left out."""
    def fake(files: Files) -> None:
        for name in [name for name in files if name.startswith(names)]:
            del files[name]
    return fake


def together(*fakes: Fake) -> Fake:
    """Several changes, as one fake."""
    def fake(files: Files) -> None:
        for each in fakes:
            each(files)
    return fake


def digest_of(name: str) -> Callable[[Files], str]:
    return lambda files: json_digest(values_in(files, name))


def digest_says(run: str, name: str, value: Callable[[Files], str]) -> Fake:
    """A digest of the data."""
    return lambda files: put(f"{run}/data/digests.json", name, value(files))(files)


def header(name: str, change: Callable[[dict[str, Any]], Any]) -> Fake:
    """Another header of a safetensors file, over the same bytes."""
    def fake(files: Files) -> None:
        data = files[name]
        size = struct.unpack("<Q", data[:8])[0]
        value = json.loads(data[8:8 + size])
        new = json.dumps(change(value) or value, separators=(",", ":")).encode()
        files[name] = struct.pack("<Q", len(new)) + new + data[8 + size:]
    return fake


def attempts(run: str, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fake:
    """Lines of the list of attempts, chained again, and the events that name them."""
    def fake(files: Files) -> None:
        name = f"{run.rpartition('/')[0]}/attempts.jsonl".lstrip("/")
        known: dict[str, str] = {}
        found = []
        for old in values_in(files, name):
            new = change(dict(old))
            if isinstance(new.get("after"), str):
                new["after"] = known.get(new["after"], new["after"])
            known[line_digest(old)] = line_digest(new)
            found.append(new)
        write(files, name, found)
        every(f"{run}/train/events.jsonl", lambda each: {"attempt": known.get(each["attempt"], each["attempt"])}
              if isinstance(each.get("attempt"), str) else {})(files)
    return fake


def recipe(run: str, place: str, value: Any) -> Fake:
    """The resolved recipe, with its digest in the list of attempts."""
    def fake(files: Files) -> None:
        name = f"{run}/config/resolved.json"
        before = digest_of(name)(files)
        resolved = values_in(files, name)
        *way, last = place.split(".")
        here = resolved
        for part in way:
            here = here.setdefault(part, {})
        here[last] = value
        write(files, name, resolved)
        attempts(run, lambda each: each | {"config_digest": json_digest(resolved)}
                 if each.get("config_digest") == before else each)(files)
    return fake


def recipe_everywhere(run: str, place: str, value: Any) -> Fake:
    """The recipe in all its places: as resolved, in the list of attempts, and as an override that was typed."""
    override = f"{place}={json.dumps(value)}"
    return together(
        recipe(run, place, value),
        edit(f"{run}/config/overrides.json", lambda found: found | {"overrides": [*found["overrides"], override]}),
        add(f"{run}/README.md", lambda data: re.sub(
            r"(    workings train .*)", lambda found: f"{found[1]} {shlex.quote(override)}", data.decode(),
            count=1).encode()))


def scored_again(unit: str, *, items: bool = False) -> Fake:
    """Scorecard rebuilt from the predictions; ``items``: their count and digest as well."""
    lines, card, config = (f"{unit}/{name}" for name in ("predictions.jsonl", "eval_summary.json", "eval_config.json"))

    def fake(files: Files) -> None:
        samples = ([*of_item] for _, of_item in groupby(values_in(files, lines), lambda each: each["id"]))
        write(files, card, summarize(samples, values_in(files, config)["aggregate"],
                                     values_in(files, card)["problems"])[1])
        if items:
            asked = {each["id"]: item_from_json({"expected_answer": each["gold"], **{key: each[key] for key in (
                "id", "prompt", "section", "category", "difficulty")}}) for each in values_in(files, lines)}
            put(config, "items", {"count": len(asked), "digest": items_digest([*asked.values()])})(files)
    return fake


def made_again(fake: Fake) -> Fake:
    """A fake, and the views of each unit as its other files give them then."""
    def made(files: Files) -> None:
        fake(files)
        for unit in load(walk.MemoryTree(files)).units:
            for name, render in views_of(unit).items():
                try:
                    files[unit.tree_path(name)] = render().encode()
                except (RecordError, *MALFORMED):
                    continue  # its checks find that it cannot be read any more
    return made


# --- fakes as data ------------------------------------------------------------------------------------------------

DATA = tomllib.loads(Path(__file__).with_name("fakes.toml").read_text("utf-8"))


def of_data(kind: str) -> Table:
    """The fakes of `fakes.toml` about records of a kind."""
    return {name: (_fake(file, said), said["found"]) for file, rows in DATA[kind].items()
            for name, said in rows.items()}


def _fake(file: str, said: Mapping[str, Any]) -> Fake:
    run = file.partition("/")[0]

    def split(place: str) -> tuple[str, str]:
        inner, is_in_a_folder, rest = place.partition(": ")
        return (file + inner, rest) if is_in_a_folder else (file, place)

    def twice(holder: list[Any], number: int) -> None:
        holder.insert(number, holder[number])

    fakes = [put(*split(place), value) for place, value in said.get("put", {}).items()]
    fakes += [at(*split(place), lambda holder, key, more=more: holder.__setitem__(key, holder[key] + more))
              for place, more in said.get("plus", {}).items()]
    fakes += [without(*split(place)) for place in said.get("without", ())]
    fakes += [at(*split(place), twice) for place in said.get("twice", ())]
    fakes += [copy(file + old, file + new) for old, new in said.get("copy", {}).items()]
    fakes += [gone(*(file + name for name in said["gone"]))] if "gone" in said else []
    fakes += [edit(file, lambda found: [*found, said["more"]])] if "more" in said else []
    fakes += [text(file, *said["text"])] if "text" in said else []
    fakes += [add(file, said["data"].encode())] if "data" in said else []
    fakes += [digest_says(run, said["digest"], digest_of(file))] if "digest" in said else []
    fakes += [recipe_everywhere(run, place, value) for place, value in said.get("recipe", {}).items()]
    fakes += [scored_again(file.rpartition("/")[0], items=said["scored"] == "items")] if "scored" in said else []
    return made_again(together(*fakes)) if "views" in said else together(*fakes)


# --- what finds them ----------------------------------------------------------------------------------------------

@dataclass(frozen=True)
class Outcome:
    """What the answer says of a fake."""

    failed: Mapping[str, str]
    """Texts of the checks that fail, by id."""
    named: list[str]
    """Changed fields that the answer names, and checks that are not made any more."""

    @property
    def word(self) -> str:
        """Found, named, or nothing."""
        return FOUND if self.failed else NAMED if self.named else "missed"

    def problem(self, expected: str) -> str:
        """What is not as a table expects it; empty if it is."""
        if expected in (FOUND, NAMED):
            return "" if self.word == expected else f"{self.word}: {dict(self.failed)}"
        ids, _, words = expected.partition(": ")
        texts = "; ".join(self.failed.get(name, "") for name in ids.split())
        return "" if set(ids.split()) <= self.failed.keys() and words in texts else f"found by {dict(self.failed)}"


def outcome(files: Files, honest: walk.Verification, fake: Fake, *, made_again: bool = False,
            whole_files: bool = False, only: Collection[str] = ()) -> Outcome:
    """What `verify` reports about a record with a fake.

    ``made_again``: what is made of other files does not count as changed. ``whole_files``: any field of a changed file
    counts as one that was changed. ``only``: these checks are made, and nothing is named.
    """
    changed = dict(files)
    fake(changed)
    assert changed != files, "nothing was changed"
    found = walk.verified(walk.resealed(changed), only=only)
    fields = changed_fields(files, changed) if not only else set()
    if made_again:
        fields = {each for each in fields if not each[1].endswith(VIEWS) and not (
            each[2] in DIGESTS and any(json.dumps(each[2]).encode() in data for name, data in changed.items()
                                       if name.endswith(each[1])))}
    named = [one.text for one in found.unchecked_fields if any(
        one.unit in (unit, unit or ".") and one.file == file and (whole_files or covers(one.field, field))
        for unit, file, field in fields)]
    before = {check.id: check.verdict for check in honest.checks}
    named += [f"{check.id}: {check.text}" for check in found.checks
              if check.verdict == "not_checked" and before.get(check.id) == "passed"]
    return Outcome({check.id: check.text for check in found.checks if check.verdict == "failed"}, named)


def covers(said: str, field: str) -> bool:
    """Whether a field that the answer names is one that was changed, or holds it, or is in it."""
    return said in ("", field, *WHOLE) or fnmatchcase(field, f"{said}.*") or fnmatchcase(said, f"{field}.*")


def changed_fields(before: Files, after: Files) -> set[tuple[str, str, str]]:
    """Unit, file and field of everything that differs; an empty field is the whole file."""
    found = set()
    for name in before.keys() | after.keys():
        if before.get(name) == after.get(name) or name.endswith(("SEAL.json", "SHA256SUMS")):
            continue
        unit, _, file = walk.unit_of(name, after if name in after else before)
        one, other = (_fields(files.get(name, b""), name) for files in (before, after))
        found |= {(unit, file, field) for field in one.keys() | other.keys() if one.get(field) != other.get(field)}
    return found


def _fields(data: bytes, name: str) -> Mapping[str, Any]:
    """Values by field, those of all lines together; of other files the whole."""
    if not data or not name.endswith((".json", ".jsonl")):
        return {"": data}
    found: dict[str, list[Any]] = {}
    try:
        values = [json.loads(text) for text in (data.splitlines() if name.endswith("l") else [data])]
    except ValueError:
        return {"": data}
    for value in values:
        for place, leaf in walk.leaves(value, every_item=True):
            found.setdefault(walk.pattern(place), []).append(json.dumps(leaf))
    return found
