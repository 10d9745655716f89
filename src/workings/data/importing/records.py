"""Records for an importer, one after the other, each with its position in the file, readable or not."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

MAX_RECORD_BYTES = 16 << 20
"""Longest record, in bytes. A line of 100 MB is a damaged file; reading it whole would break the promise of bounded
memory."""
MAX_DEPTH = 64
"""Deepest nesting. No known format needs more than ten; more attacks the reader's stack."""


@dataclass(frozen=True)
class SourceRecord:
    """One record that could be read."""

    number: int
    """Line of a JSON lines file, else number of the record, from 1."""
    value: object


@dataclass(frozen=True)
class Unreadable:
    """A place where a record should be and cannot be read."""

    number: int
    reason: str
    raw: str
    """The bytes as text: UTF-8 with what is not UTF-8 as backslash escapes; a long one is cut."""
    size: int
    """Bytes of the record in the file."""


Records = Iterator[SourceRecord | Unreadable]


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    # `json` by itself keeps the last of two equal keys and says nothing.
    record = dict(pairs)
    if len(record) != len(pairs):
        keys = [key for key, _ in pairs]
        # Quadratic, but only in a record that is refused.
        repeated = next(key for key in keys if keys.count(key) > 1)
        raise ValueError(f"key {repeated[:80]!r} is given twice")
    return record


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


DECODER = json.JSONDecoder(object_pairs_hook=_unique_keys, parse_constant=_refuse_constant)
"""Strict JSON: no repeated keys, no `NaN` and no `Infinity`."""


def parse(text: str) -> object:
    """One JSON value.

    Raises:
        ValueError: with a short reason.
    """
    try:
        value: object = DECODER.decode(text)
    # The decoder recurses with the text, and ends here before the depth of a value can be looked at.
    except RecursionError:
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    check_depth(value)
    return value


def check_depth(value: object) -> None:
    """Refuse what is nested deeper than `MAX_DEPTH`, level by level and without recursion.

    Raises:
        ValueError: when it is.
    """
    level = [value]
    for _ in range(MAX_DEPTH):
        level = [inner for outer in level if isinstance(outer, (dict, list))
                 for inner in (outer.values() if isinstance(outer, dict) else outer)]
        if not level:
            return
    raise ValueError(f"JSON nested deeper than {MAX_DEPTH}")
