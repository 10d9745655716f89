"""Canonical JSON (RFC 8785): one value has exactly one sequence of bytes, so that digests of values have a meaning."""

import json
from typing import Any

import rfc8785

from workings.errors import RecordError

MAX_DEPTH = 64
"""Deepest nesting of a record. Nothing of ours is deeper than ten; more is an attack on the reader's stack."""


def dumps(obj: Any) -> bytes:
    """RFC 8785 bytes of a JSON value, without a newline at the end.

    Raises:
        RecordError: for what JSON cannot say exactly: not-a-number, infinity, integers beyond 2**53, other types.
    """
    try:
        return rfc8785.dumps(obj)
    except (rfc8785.CanonicalizationError, RecursionError, UnicodeError) as error:
        raise RecordError(f"not a value that JSON can hold exactly: {error}") from error


def line(obj: Any) -> bytes:
    """`dumps` with a newline: the form of every JSON file and JSON line that the recorder writes."""
    return dumps(obj) + b"\n"


def loads(data: bytes | str) -> Any:
    """Strict JSON: refuses repeated keys, ``NaN``, ``Infinity``, values deeper than `MAX_DEPTH` and broken UTF-8.

    Raises:
        RecordError: says what is wrong, in one line.
    """
    try:
        text = data.decode("utf-8") if isinstance(data, bytes) else data
        value = json.loads(text, object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
    except RecursionError:
        raise RecordError(f"JSON nested deeper than {MAX_DEPTH}") from None
    except ValueError as error:  # JSONDecodeError and UnicodeDecodeError, and integers of more than 4,300 digits
        raise RecordError(f"not JSON: {str(error)[:200]}") from None
    if _deeper_than(value, MAX_DEPTH):
        raise RecordError(f"JSON nested deeper than {MAX_DEPTH}")
    return value


def find_nulls(value: Any, where: str = "$") -> list[str]:
    """Places of every ``null`` in a JSON value, as `$.a[3].b`. Records have none: see `workings.record.absent`."""
    if value is None:
        return [where]
    if isinstance(value, dict):
        return [found for key, inner in value.items() for found in find_nulls(inner, f"{where}.{key}")]
    if isinstance(value, (list, tuple)):
        return [found for index, inner in enumerate(value) for found in find_nulls(inner, f"{where}[{index}]")]
    return []


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    result = dict(pairs)
    if len(result) != len(pairs):
        seen: set[str] = set()
        repeated = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"key {repeated[:80]!r} is given twice")
    return result


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _deeper_than(value: Any, limit: int) -> bool:
    # Level by level instead of recursion: the value may be deep on purpose.
    level = [value]
    for _ in range(limit):
        level = [inner for item in level if isinstance(item, (dict, list))
                 for inner in (item.values() if isinstance(item, dict) else item)]
        if not level:
            return False
    return True
