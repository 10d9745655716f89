"""What a file calls a format's keys (`--map prompt=problem,answer=solution`), and which format a record looks like."""

from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

from workings.data.importing.fields import keys_of
from workings.data.importing.formats import ANSWERS, FORMATS, QUESTIONS
from workings.data.importing.sources import RecordSource, SourceRecord, Unreadable
from workings.errors import RequestError

_EXAMPLE = "--map prompt=problem,answer=solution"
_MAX_RECORDS = 20
_KEYS = {"llamafactory": ("conversations", "chosen", "rejected"), "chosen-rejected": ("chosen", "rejected"),
         "messages": ("messages",), "sharegpt": ("conversations",), "prompt-completion": ("prompt", "completion"),
         "alpaca": ("instruction", "output")}
"""Keys that only one format has."""


def parse_map(texts: Sequence[str]) -> dict[str, str]:
    """The format's key -> the file's key. Raises `RequestError` for anything but pairs with distinct keys."""
    keys: dict[str, str] = {}
    for pair in ",".join(texts).split(",") if texts else ():
        format_key, mark, file_key = (part.strip() for part in pair.partition("="))
        if not (format_key and mark and file_key):
            raise RequestError(f"--map {pair} is not of the form KEY=KEY", "the format's key, then the file's",
                               _EXAMPLE)
        if format_key in keys:
            raise RequestError(f"--map names {format_key} twice: {keys[format_key]} and {file_key}",
                               "each key of the format once", _EXAMPLE)
        keys[format_key] = file_key
    return keys


class KeyMap:
    """Renames the keys of records, and remembers which keys of the map no record has had so far."""

    def __init__(self, keys: Mapping[str, str]) -> None:
        self._keys = dict(keys)
        self._unseen = dict(keys)
        self._first_record: Mapping[str, Any] = {}

    def renamed(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """The record under the format's keys; an existing value is kept as `original_KEY`."""
        self._first_record = self._first_record or record
        renamed = {}
        for format_key, file_key in self._keys.items():
            value = _value_at(record, file_key)
            # Null counts as missing: a row of a table has every column.
            if value is not None:
                renamed[format_key] = value
                self._unseen.pop(format_key, None)
        others = {f"original_{key}" if key in renamed else key: value
                  for key, value in record.items() if key not in self._keys.values()}
        return others | renamed

    def refuse_unseen(self) -> None:
        """Raise `RequestError` for a key of the map that no record had."""
        for format_key, file_key in self._unseen.items():
            raise RequestError(f"--map {format_key}={file_key}: no record has `{file_key}`",
                               f"a key of the file; its first record has {keys_of(self._first_record)}")


def _value_at(record: Mapping[str, Any], key: str) -> Any:
    """The value of a key; `outer.inner` is a key of an inner object, unless the record has a key of this name."""
    if key in record or "." not in key:
        return record.get(key)
    outer, _, inner = key.partition(".")
    inner_record = record.get(outer)
    return _value_at(inner_record, inner) if isinstance(inner_record, dict) else None


def looks_like(record: Mapping[str, Any]) -> str:
    """The first format that reads this record; empty if none does."""
    return next((name for name in FORMATS if reads(name, record)), "")


def reads(form: str, record: Mapping[str, Any]) -> bool:
    """Whether a format reads this record."""
    try:
        FORMATS[form].read(record)
    except ValueError:
        return False
    return True


def format_of(source: RecordSource, keys: KeyMap) -> str:
    """The format that the first records of a source look like. Raises `RequestError` if they fit none."""
    # The first record may be a bad one.
    first = [*islice(source.records(), _MAX_RECORDS)]
    values = [keys.renamed(record.value) for record in first
              if isinstance(record, SourceRecord) and isinstance(record.value, dict)]
    forms = [form for form in (*map(looks_like, values), *map(by_its_keys, values)) if form]
    if forms:
        # A record without its rejected completion or its verdict, which looks like a trace, may come first.
        return next((form for form in forms if FORMATS[form].gives in ("pairs", "verdicts")), forms[0])
    if first and not values and isinstance(first[0], Unreadable):
        raise RequestError(f"{source.name}:{first[0].number}: {first[0].reason}", "a record that can be read")
    first_value = values[0] if values else {}
    text_keys = [key for key, value in first_value.items() if isinstance(value, str)]
    question, answer = text_keys if len(text_keys) == 2 else ("KEY", "KEY")
    first_keys = f"; the first record has {keys_of(first_value)}" if values else ""
    raise RequestError(f"the format is unknown{first_keys}", "a format that `workings data list` prints",
                       f"workings data import FILE --map question={question},answer={answer}")


def by_its_keys(record: Mapping[str, Any]) -> str:
    """The format whose keys a record has, even if their values are wrong; empty if there is none."""
    for form, keys in _KEYS.items():
        if set(keys) <= record.keys():
            has_prompt = form == "chosen-rejected" and "prompt" in record
            return "prompt-chosen-rejected" if has_prompt else form
    is_answered = record.keys() & set(QUESTIONS) and record.keys() & set(ANSWERS)
    return "question-answer" if is_answered else ""
