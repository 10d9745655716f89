"""Canonical JSON (RFC 8785): one value has exactly one sequence of bytes, so that values have digests."""

import json
from collections import Counter
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import rfc8785

from workings.errors import RecordError
from workings.record.storage import MAX_BYTES, parsed_bytes, read_plain, refuse_too_large

MAX_DEPTH = 64
"""Deepest nesting of a record. Nothing of ours is deeper than ten; more is an attack on the reader's stack."""
MAX_NULLS = 1_000
_SMALL_BYTES = 1 << 20
"""A JSON text up to here cannot take more memory than is allowed."""


def dumps(obj: Any) -> bytes:
    """RFC 8785 bytes of a JSON value, without a newline at the end. Raises `RecordError` for what JSON cannot say."""
    try:
        return rfc8785.dumps(obj)
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeError) as error:
        raise RecordError(f"not a value that JSON can hold exactly: {error}") from error


def line(obj: Any) -> bytes:
    """`dumps` with a newline: the form of every JSON file and JSON line that the recorder writes."""
    return dumps(obj) + b"\n"


def record_line(obj: Any, where: str) -> bytes:
    """`line` of what a record holds. Raises `RecordError` naming ``where`` for a null: a record says why instead."""
    written = line(obj)
    if b"null" in written and (nulls := find_nulls(obj)):
        raise RecordError(f'{where}: null at {", ".join(nulls[:5])}; a record says {{"absent": "why"}} instead')
    return written


def loads(data: bytes | str) -> Any:
    """Parse strict JSON: no repeated keys, no ``NaN`` or ``Infinity``, no values nested deeper than `MAX_DEPTH`.

    Raises `RecordError` for any other text, and where the values would fill the memory.
    """
    if len(data) > _SMALL_BYTES:
        refuse_too_large(parsed_bytes(data), "its values")
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        value = DECODER.decode(text)
    except RecursionError:
        raise RecordError(f"JSON nested deeper than {MAX_DEPTH}") from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError, and integers of more than 4,300 digits
        raise RecordError(f"not JSON: {str(error)[:200]}") from None
    # Fewer brackets than the limit cannot nest deeper; counting them is much faster than walking.
    if text.count("[") + text.count("{") > MAX_DEPTH and is_too_deep(value):
        raise RecordError(f"JSON nested deeper than {MAX_DEPTH}")
    return value


def read_json(path: Path) -> Any:
    """`loads` of a plain file. Raises `RecordError` as `read_plain` does, and naming the file."""
    data = read_plain(path, MAX_BYTES)
    try:
        return loads(data)
    except RecordError as error:
        raise RecordError(f"{path.name}: {error}") from None


def read_json_object(path: Path) -> dict[str, Any]:
    """`read_json` of a file that holds an object. Raises `RecordError` for other values, too."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise RecordError(f"{path} is not a JSON object")
    return value


def find_nulls(value: Any) -> list[str]:
    """Places of nulls in a JSON value, up to `MAX_NULLS`. Records have none."""
    return list(islice((place for place, inner in places(value) if inner is None), MAX_NULLS))


def places(value: Any, where: str = "$") -> Iterator[tuple[str, Any]]:
    """Each value that is neither an object nor a list, with its place, as `$.a[3].b`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from places(inner, f"{where}.{key[:60]}")
    elif isinstance(value, (list, tuple)):
        for index, inner in enumerate(value):
            yield from places(inner, f"{where}[{index}]")
    else:
        yield where, value


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        [(repeated, _)] = Counter(key for key, _ in pairs).most_common(1)
        raise ValueError(f"key {repeated[:80]!r} is given twice")
    return result


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
"""Strict JSON: no repeated keys, no `NaN` and no `Infinity`."""


def is_too_deep(value: Any) -> bool:
    """Whether a value is nested deeper than `MAX_DEPTH`."""
    # Level by level instead of recursion: the value may be deep on purpose.
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for item in level if isinstance(item, (dict, list))
                 for inner in (item.values() if isinstance(item, dict) else item)]
        if not level:
            return False
    return True
