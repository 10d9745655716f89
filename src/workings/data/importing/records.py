"""Records for an importer, one after the other, each with its position in the file, readable or not."""

import json
from collections.abc import Iterator
from dataclasses import dataclass

from workings.record.canonical import DECODER, MAX_DEPTH, is_too_deep

MAX_RECORD_BYTES = 16 << 20
"""Longest record, in bytes. A line of 100 MB is a damaged file; reading it whole would break the promise of bounded
memory."""


@dataclass(frozen=True)
class SourceRecord:
    """One record that could be read."""

    number: int
    """Line of a JSON lines file, else number of the record, from 1."""
    value: object


@dataclass(frozen=True)
class Unreadable:
    """An unreadable record and its place."""

    number: int
    reason: str
    raw: str
    """The bytes as UTF-8 text with backslash escapes for invalid bytes, truncated."""
    size: int
    """Bytes of the record in the file."""


Records = Iterator[SourceRecord | Unreadable]


def parse(text: str) -> object:
    """One JSON value.

    Raises:
        ValueError: with a short reason.
    """
    try:
        value: object = DECODER.decode(text)
    # The decoder recurses and fails before the depth can be checked.
    except RecursionError:
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}") from None
    except json.JSONDecodeError as error:
        raise ValueError(f"not JSON: {error.msg} at character {error.pos + 1}") from None
    check_depth(value)
    return value


def check_depth(value: object) -> None:
    """Refuse values nested deeper than `MAX_DEPTH`.

    Raises:
        ValueError: when it is.
    """
    if is_too_deep(value):
        raise ValueError(f"JSON nested deeper than {MAX_DEPTH}")
