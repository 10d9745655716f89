"""Fakes that follow from a record itself, about every file and every field of it.

Every file is left out, emptied, another unit's, its lines left out, doubled or moved. In every object there is a key
more, a value of another type, a key left out, and each value is told alike in every place: a forger who changes a value
in one file only is found by any copy of it. That kind changes all copies, and makes again what is made of them: the
recipe's digest, the list of attempts, the views. What finds each is not written down: a check has to fail, or the
answer has to name a field that was changed.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from tests.evidence import walk
from tests.evidence.fakes import (
    Fake,
    Files,
    add,
    copy,
    edit,
    gone,
    made_again,
    outcome,
    put,
    recipe_everywhere,
    values_in,
    write,
)
from tests.evidence.walk import Place
from workings.evidence.verify.coverage_table import rows_of_field
from workings.record.canonical import line

Fakes = Iterator[tuple[str, Fake]]
MORE = "reviewed_by"
"""A key that no file has."""
LEAST = 1000
"""From here on a number is taken to be the same one wherever it is."""
SEALED = ("SEAL.json", "COMMIT.json")
_TIME = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"')
_NUMBER = re.compile(r"\d+")


def changes(files: Files, fake: Fake) -> bool:
    """Whether anything is changed that sealing again does not make again."""
    changed = dict(files)
    fake(changed)
    return walk.resealed(changed) != walk.resealed(files)


# --- about files --------------------------------------------------------------------------------------------------

def of_files(record: Files) -> dict[str, Fake]:
    """Every fake about the files of a record, by name."""
    own = [name for name in sorted(record) if not name.endswith((*SEALED, "SHA256SUMS"))]
    found = {what: fake for name in own for what, fake in _of_file(name, record[name])}
    # Files of one name in two folders: of two checkpoints, of two evaluations.
    found |= {f"{one}: that of {other}": copy(other, one) for one in own for other in own if one != other
              and "/" in one and one.rpartition("/")[2] == other.rpartition("/")[2]}
    return {name: fake for name, fake in found.items() if _differs(record, fake)}


def _differs(record: Files, fake: Fake) -> bool:
    files = dict(record)
    fake(files)
    return files != record


def _of_file(name: str, data: bytes) -> Fakes:
    yield f"{name}: left out", gone(name)
    if name.endswith(".safetensors"):
        yield f"{name}: numbers moved by a byte", add(name, data[:-9] + data[-1:] + data[-9:-1])
        return
    yield f"{name}: emptied", add(name, b"{}\n" if name.endswith(".json") else b"" if name.endswith("l") else b"\n")
    if name.endswith(".json"):
        value = json.loads(data)
        for key in [key for key in value if value[key]] if "tokenizer" not in name else []:
            yield f"{name}: no {key}", add(name, line({other: value[other] for other in value if other != key}))
    elif name.endswith(".jsonl"):
        yield from _of_lines(name, [json.loads(text) for text in data.splitlines()])
    else:
        yield from _of_texts(name, data.splitlines(keepends=True))
    for place, time in enumerate(sorted({found.group(1) for found in _TIME.finditer(data.decode(errors="replace"))})):
        for words, change in (("a day later", timedelta(days=1)), ("a year earlier", timedelta(days=-365))):
            moved = (datetime.fromisoformat(time) + change).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            yield f"{name}: time {place} {words}", add(name, data.replace(time.encode(), moved.encode()))


def _of_texts(name: str, lines: list[bytes]) -> Fakes:
    for number, text in enumerate(lines):
        words = text.decode(errors="replace")
        if words.strip():
            yield f"{name}: without {words.strip()[:40]!r}", add(name, b"".join(lines[:number] + lines[number + 1:]))
            if _NUMBER.search(words):
                other = _NUMBER.sub(lambda found: str(int(found.group(0)) + 1), words, count=1).encode()
                yield f"{name}: another number in {words.strip()[:40]!r}", add(
                    name, b"".join([*lines[:number], other, *lines[number + 1:]]))


def _of_lines(name: str, rows: list[dict[str, Any]]) -> Fakes:
    middle = len(rows) // 2
    orders = {
        "the first line left out": rows[1:], "the last line left out": rows[:-1],
        "a line in the middle left out": rows[:middle] + rows[middle + 1:], "the first half only": rows[:middle],
        "a line twice": [*rows[:middle], rows[middle], *rows[middle:]], "turned round": rows[::-1],
        "the first two exchanged": [*rows[1:2], *rows[:1], *rows[2:]],
        "the first line after the last": [*rows[1:], rows[0]]}
    for words, changed in orders.items():
        yield f"{name}: {words}", edit(name, lambda found, changed=changed: changed)
        if "step" in rows[0]:
            numbered = [row | {"step": number} for number, row in enumerate(changed, start=1)]
            yield f"{name}: {words}, renumbered", edit(name, lambda found, numbered=numbered: numbered)
    for key in [key for key in rows[middle] if rows[middle][key] not in ([], {})]:
        yield f"{name}: no {key}", _without(name, (0,), key)
        yield f"{name}: every {key} that of the first line", edit(name, lambda found, key=key: [
            row | ({key: found[0][key]} if key in found[0] and key in row else {}) for row in found])


# --- about one field ----------------------------------------------------------------------------------------------

def witness_problem(record: tuple[Files, walk.Verification], step: walk.Step) -> str:
    """What became of another value of a field: empty where its row's check found it, or where the answer names it."""
    said = outcome(*record, put(step.name, step.place, lambda holder: walk.another(holder[step.place[-1]])))
    _, kind, file = walk.unit_of(step.name, record[0])
    checks = [row.check for row in rows_of_field(kind, file, step.field)]
    if said.named or any(check in said.failed for check in checks):
        return ""
    return f"{step}: {sorted(said.failed) or 'nothing fails'}, expected {' or '.join(checks) or 'a row'}"


# --- values of the wrong kind --------------------------------------------------------------------------------------

HOSTILE = (None, [], {}, "x", "", -1, 1.5, 1e308, True, {"absent": "x"}, [[[[]]]], "../../etc/passwd", [1, "a", None])


def hostile_values(files: Files, name: str) -> list[tuple[Place, Any]]:
    """Every place of a file, sections included, with every value that may be wrong there."""
    def within(value: Any, place: Place) -> Iterator[Place]:
        yield place
        inner = value.items() if isinstance(value, dict) else enumerate(value[:1]) if isinstance(value, list) else ()
        for key, each in inner:
            yield from within(each, (*place, key))
    return [(place, hostile) for place in within(values_in(files, name), ()) for hostile in HOSTILE]


def with_value(files: Files, name: str, place: Place, value: Any) -> Files:
    """Files with a value, sealed again."""
    changed = dict(files)
    put(name, place, value)(changed)
    return changed if name.endswith(SEALED) else walk.resealed(changed)


# --- about fields -------------------------------------------------------------------------------------------------

def of_fields(files: Files, kind: str) -> Fakes:
    """Fakes of a kind (a key of ``KINDS``) about a record, by name; sealing again would undo some (`changes`)."""
    for name in sorted(files):
        if name.endswith((".json", ".jsonl")) and "tokenizer/" not in name and "/attest/" not in name:
            yield from KINDS[kind](files, name)


def _more_keys(files: Files, name: str) -> Fakes:
    for place in _objects(files, name):
        words = ".".join([part for part in walk.pattern(place[1:]).split(".") if part] + [MORE])
        yield f"{name}: {words}", _everywhere(name, place, lambda found: found | {MORE: "a reviewer"})


def _other_types(files: Files, name: str) -> Fakes:
    if not name.endswith(SEALED):
        for place, value in walk.fields(files[name], name):
            for words, other in _as_other_types(value):
                yield f"{name}: {walk.pattern(place)} as {words}", put(name, place, other)


def _as_other_types(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, bool):
        yield "a number", int(value)
    elif isinstance(value, int | float):
        yield "text", json.dumps(value)
        if value in (0, 1):
            yield "true or false", bool(value)


def _keys_left_out(files: Files, name: str) -> Fakes:
    """Keys that a check covers. Of a field that is only said nothing is claimed."""
    _, kind, file = walk.unit_of(name, files)
    for place in [] if name.endswith(SEALED) else _objects(files, name):
        for key in _at(_rows(files, name), place):
            field = ".".join(part for part in (walk.pattern(place[1:]), key) if part)
            if any(not row.reason for row in rows_of_field(kind, file, field)[:1]):
                yield f"{name}: no {field}", _without(name, place, key)


def _alike(files: Files, name: str) -> Fakes:
    if name.endswith((*SEALED, "predictions.jsonl", "attempts.jsonl")):
        return
    run = name.rpartition("/config/resolved.json")[0]
    for place, value in walk.fields(files[name], name):
        words = walk.pattern(place)
        if run and "*." not in words:
            other = walk.another(value)
            yield f"{name}: {words} everywhere", made_again(recipe_everywhere(
                run, words.removesuffix(".*"), [other] if words.endswith(".*") else other))
        elif not run and not isinstance(value, dict | list | bool):
            key = next(part for part in reversed(place) if isinstance(part, str))
            yield f"{name}: {words} everywhere", made_again(_value(key, value))


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
                write(files, name, told(values_in(files, name), ""))
            elif text and name.endswith("training_log.txt"):
                files[name] = files[name].replace(value.encode(), other.encode())
    return fake


def _rows(files: Files, name: str) -> list[Any]:
    value = values_in(files, name)
    return value if name.endswith(".jsonl") else [value]


def _objects(files: Files, name: str) -> list[Place]:
    """Places of all objects, of lists those of the first one; the number of a line comes first."""
    def within(value: Any, place: Place) -> Iterator[Place]:
        if isinstance(value, dict) and set(value) != {"absent"}:
            yield place
            for key, inner in value.items():
                yield from within(inner, (*place, key))
        elif isinstance(value, list) and value:
            yield from within(value[0], (*place, 0))
    found = [place for number, row in enumerate(_rows(files, name)) for place in within(row, (number,))]
    return [*{walk.pattern(place): place for place in found}.values()]


def _at(value: Any, place: Place) -> Any:
    for part in place:
        value = value[part]
    return value


def _without(name: str, place: Place, key: str) -> Fake:
    return _everywhere(name, place, lambda found: {other: found[other] for other in found if other != key})


def _everywhere(name: str, place: Place, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Fake:
    """The objects at a place of every line."""
    def fake(files: Files) -> None:
        rows = _rows(files, name)
        for row in range(len(rows)):
            try:
                found = _at(rows, (row, *place[1:]))
            except (KeyError, IndexError, TypeError):
                continue
            if isinstance(found, dict):
                changed = change(found)
                found.clear()
                found.update(changed)
        write(files, name, rows if name.endswith(".jsonl") else rows[0])
    return fake


KINDS: dict[str, Callable[[Files, str], Fakes]] = {
    "keys that no one knows": _more_keys, "values of another type": _other_types, "keys left out": _keys_left_out,
    "told alike": _alike}
