"""Fakes that follow from the record itself, about every field: unknown keys, values of another type, keys that
are left out, and values that are told alike in every place.

A forger who changes a value in one file only is found by any copy of it. The last kind changes all copies, and makes
again what is made of them: the recipe's digest, the list of attempts, the views. A check has
to fail, or the answer has to name a field that was changed; that it names what is made of it, or another one of the
same file, is not enough.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

from tests.evidence import walk
from tests.evidence.fakes_elsewhere import changed_fields, recipe_everywhere
from tests.evidence.walk import Place
from workings.errors import RecordError
from workings.evidence.verify.fields import row_of
from workings.evidence.verify.load import load
from workings.evidence.verify.run_checks import MALFORMED
from workings.evidence.verify.views import views_of
from workings.record.canonical import line

Files = dict[str, bytes]
Fake = Callable[[Files], Any]
MORE = "reviewed_by"
"""A key that no file has."""
LEAST = 1000
"""From here on a number is taken to be the same one wherever it is."""
MADE = ("README.md", "samples.md")
"""Views of other files."""
DIGESTS = ("config_digest", "after", "attempt")
"""Fields that are made of others."""


def fakes_about(files: Files, kind: str) -> Iterator[tuple[str, Fake]]:
    """Every fake of a kind (a key of ``KINDS``) about a record, by name."""
    return ((what, fake) for what, fake in words_for_fakes(files, kind) if changes(files, fake))


def words_for_fakes(files: Files, kind: str) -> Iterator[tuple[str, Fake]]:
    """The same and those that sealing again would undo: whether one changes anything takes longer than to name it."""
    for name in sorted(files):
        if name.endswith((".json", ".jsonl")) and "tokenizer/" not in name and "/attest/" not in name:
            yield from KINDS[kind](files, name)


def outcome(files: Files, honest: walk.Verification, fake: Fake) -> tuple[list[str], list[str]]:
    """Checks that fail or are not made any more, and changed fields that the answer names."""
    changed = dict(files)
    fake(changed)
    found = walk.verified(walk.resealed(changed))
    before = {check.id: check.verdict for check in honest.checks}
    open_now = [check.id for check in found.checks if check.verdict == "failed" or (
        check.verdict == "not_checked" and before.get(check.id) == "passed")]
    fields = {each for each in changed_fields(files, changed) if not each[1].endswith(MADE) and not (
        each[2] in DIGESTS and any(json.dumps(each[2]).encode() in data for name, data in changed.items()
                                   if name.endswith(each[1])))}
    fields |= {(*walk.unit_of(name, changed)[::2], MORE) for name in files if name.endswith("COMMIT.json")
               and json.loads(files[name]).keys() != json.loads(changed[name]).keys()}
    return open_now, [one.text for one in found.unchecked_fields if any(
        one.unit in (unit, unit or ".") and one.file == file
        and (one.field in ("", field) or one.field.startswith(f"{field}.") or field.startswith(f"{one.field}."))
        for unit, file, field in fields)]


def changes(files: Files, fake: Fake) -> bool:
    """Whether anything is changed that sealing again does not make again."""
    changed = dict(files)
    fake(changed)
    return walk.resealed(changed) != walk.resealed(files)


def _more_keys(files: Files, name: str) -> Iterator[tuple[str, Fake]]:
    for place in {walk.pattern(place): place for place in _objects(_rows(files[name], name))}.values():
        yield f"{name}: {_words(place)}{MORE}", _everywhere(name, place, lambda found: found | {MORE: "somebody"})


def _other_types(files: Files, name: str) -> Iterator[tuple[str, Fake]]:
    if name.endswith(("COMMIT.json", "SEAL.json")):
        return
    for place, value in walk.fields(files[name], name):
        for words, other in _as_other_types(value):
            yield f"{name}: {walk.pattern(place)} as {words}", _put(name, place, other)


def _as_other_types(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "a number", int(value)
    elif isinstance(value, int | float):
        yield "text", json.dumps(value)
        if value in (0, 1):
            yield "true or false", bool(value)


def _keys_left_out(files: Files, name: str) -> Iterator[tuple[str, Fake]]:
    """Keys that a check covers. Of a field that is only said nothing is claimed."""
    if name.endswith(("COMMIT.json", "SEAL.json")):
        return
    _, kind, file = walk.unit_of(name, files)
    for place in {walk.pattern(place): place for place in _objects(_rows(files[name], name))}.values():
        for key in _at(_rows(files[name], name), place):
            field = ".".join(part for part in (walk.pattern(place[1:]), key) if part)
            row = row_of(kind, file, field)
            if row is not None and not row.reason:
                yield f"{name}: no {field}", _everywhere(name, place, lambda found, key=key: {
                    other: value for other, value in found.items() if other != key})


def _alike(files: Files, name: str) -> Iterator[tuple[str, Fake]]:
    if name.endswith(("COMMIT.json", "SEAL.json", "predictions.jsonl", "attempts.jsonl")):
        return
    run = name.rpartition("/config/resolved.json")[0]
    for place, value in walk.fields(files[name], name):
        if run and "*." not in walk.pattern(place):
            yield f"{name}: {walk.pattern(place)} everywhere", _recipe(run, walk.pattern(place), walk.another(value))
        elif not run and not (isinstance(value, dict | list | bool)):
            key = next(part for part in reversed(place) if isinstance(part, str))
            yield f"{name}: {walk.pattern(place)} everywhere", _value(key, value)


def _recipe(run: str, place: str, value: Any) -> Fake:
    def fake(files: Files) -> None:
        recipe_everywhere(run, place.removesuffix(".*"), [value] if place.endswith(".*") else value)(files)
        _made_again(files)
    return fake


def _value(key: Any, value: Any) -> Fake:
    """Another value wherever this one is under the same key, or under any where it is a number like no other."""
    other = walk.another(value)
    text = isinstance(value, str) and len(value) > len("complete")
    rare = text or (isinstance(value, float) and value % 1) or (isinstance(value, int) and value >= LEAST)

    def told(found: Any, at: Any) -> Any:
        if isinstance(found, dict):
            return {name: told(inner, name) for name, inner in found.items()}
        if isinstance(found, list):
            return [told(inner, at) for inner in found]
        return other if found == value and type(found) is type(value) and (rare or at == key) else found

    def fake(files: Files) -> None:
        for name in files:
            if name.endswith((".json", ".jsonl")) and "tokenizer/" not in name and not name.endswith("SEAL.json"):
                rows = [told(row, "") for row in _rows(files[name], name)]
                if rows != _rows(files[name], name):
                    files[name] = b"".join(map(line, rows))
            elif text and name.endswith("training_log.txt"):
                files[name] = files[name].replace(value.encode(), other.encode())
        _made_again(files)
    return fake


def _made_again(files: Files) -> None:
    """The views of each unit, from what its other files say now."""
    for unit in load(walk.MemoryTree(files)).units:
        for name, render in views_of(unit).items():
            try:
                files[unit.tree_path(name)] = render().encode()
            except (RecordError, *MALFORMED):
                continue  # its checks find that it cannot be read any more


def _rows(data: bytes, name: str) -> list[Any]:
    return [json.loads(text) for text in data.splitlines()] if name.endswith(".jsonl") else [json.loads(data)]


def _objects(rows: list[Any]) -> Iterator[Place]:
    """Places of all objects, of lists those of the first one; the number of a line comes first."""
    def within(value: Any, place: Place) -> Iterator[Place]:
        if isinstance(value, dict) and set(value) != {"absent"}:
            yield place
            for key, inner in value.items():
                yield from within(inner, (*place, key))
        elif isinstance(value, list) and value:
            yield from within(value[0], (*place, 0))
    for number, row in enumerate(rows):
        yield from within(row, (number,))


def _at(value: Any, place: Place) -> Any:
    for part in place:
        value = value[part]
    return value


def _words(place: Place) -> str:
    return "".join(f"{part}." for part in walk.pattern(place[1:]).split(".") if part)


def _everywhere(name: str, place: Place, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fake:
    """The objects at a place of every line."""
    def fake(files: Files) -> None:
        rows = _rows(files[name], name)
        for row in range(len(rows)):
            try:
                found = _at(rows, (row, *place[1:]))
            except (KeyError, IndexError, TypeError):
                continue
            if isinstance(found, dict):
                changed = change(found)
                found.clear()
                found.update(changed)
        files[name] = b"".join(map(line, rows))
    return fake


def _put(name: str, place: Place, value: Any) -> Fake:
    def fake(files: Files) -> None:
        rows = _rows(files[name], name)
        *way, last = place if name.endswith(".jsonl") else (0, *place)
        _at(rows, tuple(way))[last] = value
        files[name] = b"".join(map(line, rows))
    return fake


KINDS: dict[str, Callable[[Files, str], Iterator[tuple[str, Fake]]]] = {
    "keys that no one knows": _more_keys, "values of another type": _other_types, "keys left out": _keys_left_out,
    "told alike": _alike}
