"""`--map prompt=problem,answer=solution`: a file's names for a format's keys."""

import difflib
from collections.abc import Mapping, Sequence
from typing import Any

from workings.data.importing.fields import keys_of
from workings.errors import RequestError

_EXAMPLE = "--map prompt=problem,answer=solution"


def parse_map(texts: Sequence[str]) -> dict[str, str]:
    """The file's key of each key of the format.

    Raises:
        RequestError: a pair without `=` or with an empty side, or a key of the format twice.
    """
    keys: dict[str, str] = {}
    for pair in (pair for text in texts for pair in text.split(",")):
        # At the first mark only: a key of the file may hold another one.
        format_key, mark, file_key = (part.strip() for part in pair.partition("="))
        if not (format_key and mark and file_key):
            raise RequestError(f"--map {pair} is not of the form KEY=KEY", "the format's key, then the file's",
                               _EXAMPLE)
        if format_key in keys:
            raise RequestError(f"--map names {format_key} twice: {keys[format_key]} and {file_key}",
                               "each key of the format once",
                               _EXAMPLE)
        keys[format_key] = file_key
    return keys


class KeyMap:
    """Renames the keys of records, and knows which of its keys it has seen."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = dict(keys)
        self._unseen = dict(keys)
        self._first: Mapping[str, Any] = {}

    def renamed(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The record under the format's keys; an existing value is kept as `original_KEY`."""
        # Only for the message of `refuse_unseen`.
        self._first = self._first or record
        values = {format_key: value for format_key, file_key in self._keys.items()
                  # Null counts as missing: a row of a table has every column.
                  if (value := _value_at(record, file_key)) is not None}
        for format_key in values:
            self._unseen.pop(format_key, None)
        moved = set(self._keys.values())
        other_values = {f"original_{key}" if key in values else key: value for key, value in record.items()
                if key not in moved}
        return other_values | values

    def missing(self, record: Mapping[str, Any]) -> str:
        """A sentence about a key of the map that the record does not have; empty if it has all."""
        return next((f"`{file_key}` (--map {format_key}={file_key}) is missing; the record has {keys_of(record)}"
                     for format_key, file_key in self._keys.items() if _value_at(record, file_key) is None), "")

    def mended(self, record: Mapping[str, Any]) -> str:
        """The first pair that the record has no key for, with the key that was probably meant; empty: none."""
        return next((f"--map {format_key}={near[0]}" for format_key, file_key in self._keys.items()
                     if _value_at(record, file_key) is None and (near := difflib.get_close_matches(file_key, record,
                                                                                                   n=1))),
                    "")

    def refuse_unseen(self) -> None:
        """Raise `RequestError` for a key of the map that no record had."""
        for format_key, file_key in self._unseen.items():
            raise RequestError(f"--map {format_key}={file_key}: no record has `{file_key}`",
                               f"a key of the file; its first record has {keys_of(self._first)}",
                               self.mended(self._first))


def _value_at(record: Mapping[str, Any], key: str) -> Any:
    """The value of a key; `outer.inner` goes into an object, unless the record has a key of that very name."""
    if key in record or "." not in key:
        return record.get(key)
    outer, _, inner = key.partition(".")
    below = record.get(outer)
    return _value_at(below, inner) if isinstance(below, dict) else None
