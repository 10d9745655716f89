"""Fakes about every file of a record: left out, emptied, another unit's, its lines left out, doubled or moved.

They follow from the files that there are. What finds each is not written down: a check has to fail, or the answer has
to name something that it does not name of the honest record, or the changed file as not checked.
"""

import json
import re
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any

from tests.evidence import walk
from workings.record.canonical import line

Files = dict[str, bytes]
Fake = Callable[[Files], Any]
SEALING = ("SEAL.json", "SHA256SUMS", "COMMIT.json")
"""Names of files that sealing again makes again."""
_TIME = re.compile(r'"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z)"')
_NUMBER = re.compile(r"\d+")


def fakes_about(record: Files) -> dict[str, Fake]:
    """Every fake of this kind about a record, by name."""
    found: dict[str, Fake] = {}
    own = [name for name in sorted(record) if name.rpartition("/")[2] not in SEALING]
    for name in own:
        found |= dict(_of_file(name, record[name]))
    for one, other in _alike(own):
        found[f"{one}: that of {other}"] = lambda files, one=one, other=other: files.update({one: files[other]})
    return {name: fake for name, fake in found.items() if _changes(record, fake)}


def outcome(record: Files, honest: walk.Verification, fake: Fake) -> tuple[list[str], list[str]]:
    """Checks that fail, and what the answer names next to them that it does not name of the honest record.

    A changed file that is named there already as not checked, whole or in part, counts as named.
    """
    changed = dict(record)
    fake(changed)
    sealed = walk.resealed(changed)
    found = walk.verified(sealed)
    names = {name for name in record.keys() & changed.keys() if record[name] != changed[name]}
    known = set(honest.unchecked_fields)
    named = [field.text for field in found.unchecked_fields
             if field not in known or any(name.endswith(field.file) for name in names)]
    before = {check.id: check.verdict for check in honest.checks}
    open_now = [f"{check.id}: {check.text}" for check in found.checks
                if check.verdict == "not_checked" and before.get(check.id) == "passed"]
    return sorted(check.id for check in found.checks if check.verdict == "failed"), [*open_now, *named]


def _of_file(name: str, data: bytes) -> Iterator[tuple[str, Fake]]:
    yield f"{name}: left out", lambda files: files.pop(name)
    if name.endswith(".safetensors"):
        yield f"{name}: numbers moved by a byte", _put(name, data[:-9] + data[-1:] + data[-9:-1])
        return
    yield f"{name}: emptied", _put(name, b"{}\n" if name.endswith(".json") else b"" if name.endswith("l") else b"\n")
    lines = data.splitlines(keepends=True)
    if name.endswith(".json"):
        keys = json.loads(data)
        for key in [key for key in keys if keys[key]] if "tokenizer" not in name else []:
            yield f"{name}: no {key}", _put(name, line({other: value for other, value in keys.items() if other != key}))
    elif name.endswith(".jsonl"):
        yield from _of_rows(name, [json.loads(text) for text in lines])
    else:
        for number, text in enumerate(lines):
            if text.strip():
                what = text.decode(errors="replace").strip()[:40]
                yield f"{name}: without {what!r}", _put(name, b"".join(lines[:number] + lines[number + 1:]))
                if _NUMBER.search(text.decode(errors="replace")):
                    other = _NUMBER.sub(lambda found: str(int(found.group(0)) + 1), text.decode(), count=1).encode()
                    yield f"{name}: another number in {what!r}", _put(
                        name, b"".join([*lines[:number], other, *lines[number + 1:]]))
    for place, time in enumerate(sorted({found.group(1) for found in _TIME.finditer(data.decode(errors="replace"))})):
        for words, change in (("a day later", timedelta(days=1)), ("a year earlier", timedelta(days=-365))):
            moved = (datetime.fromisoformat(time) + change).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            yield f"{name}: time {place} {words}", _put(name, data.replace(time.encode(), moved.encode()))


def _of_rows(name: str, rows: list[dict[str, Any]]) -> Iterator[tuple[str, Fake]]:
    middle = len(rows) // 2
    orders = {
        "the first line left out": rows[1:], "the last line left out": rows[:-1],
        "a line in the middle left out": rows[:middle] + rows[middle + 1:], "the first half only": rows[:middle],
        "a line twice": [*rows[:middle], rows[middle], *rows[middle:]], "turned round": rows[::-1],
        "the first two exchanged": [*rows[1:2], *rows[:1], *rows[2:]],
        "the first line behind the last": [*rows[1:], rows[0]]}
    for words, changed in orders.items():
        yield f"{name}: {words}", _put(name, b"".join(map(line, changed)))
        if "step" in rows[0]:
            numbered = [row | {"step": number} for number, row in enumerate(changed, start=1)]
            yield f"{name}: {words}, renumbered", _put(name, b"".join(map(line, numbered)))
    for key in [key for key in rows[middle] if rows[middle][key] not in ([], {})]:
        without = [{other: value for other, value in row.items() if other != key} for row in rows]
        yield f"{name}: no {key}", _put(name, b"".join(map(line, without)))
        yield f"{name}: every {key} that of the first line", _put(
            name, b"".join(line(row | ({key: rows[0][key]} if key in rows[0] and key in row else {})) for row in rows))


def _alike(names: list[str]) -> Iterator[tuple[str, str]]:
    """Files of one name in two folders: of two checkpoints, of two evaluations."""
    for one in names:
        for other in names:
            if one != other and one.rpartition("/")[2] == other.rpartition("/")[2] and "/" in one:
                yield one, other


def _put(name: str, data: bytes) -> Fake:
    return lambda files: files.update({name: data})


def _changes(record: Files, fake: Fake) -> bool:
    files = dict(record)
    fake(files)
    return files != record
