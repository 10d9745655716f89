"""The format that a record looks like, for requests with another format or without one."""

import shlex
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any

from workings.data.importing.fields import keys_of
from workings.data.importing.formats import FORMATS
from workings.data.importing.key_map import KeyMap
from workings.data.importing.pair_formats import PAIR_FORMATS
from workings.data.importing.records import SourceRecord
from workings.data.importing.sources import RecordSource, open_file
from workings.data.importing.verdicts import kto
from workings.errors import RequestError

# Pairs first, because a record of pairs often holds a conversation as well; then from the strictest reader to the one
# that reads the most.
_ORDER = {**{name: PAIR_FORMATS[name] for name in ("ultrafeedback", "llamafactory", "hh", "chosen-rejected",
                                                   "prompt-chosen-rejected")},
          "kto": kto, **{name: FORMATS[name] for name in (
              "messages", "sharegpt", "traces", "gsm8k", "tagged", "alpaca", "prompt-completion", "question-answer")}}


def looks_like(record: Mapping[str, Any], but: str = "") -> str:
    """The first format that reads this record, other than ``but``; empty where none does."""
    for name, read in _ORDER.items():
        if name != but:
            try:
                read(record)
            except ValueError:
                continue
            return name
    return ""


def advice(record: Mapping[str, Any], keys: KeyMap, requested_format: str) -> str:
    """The option to type instead, if the first record of a file is not of the requested format."""
    if mended := keys.mended(record):
        return mended
    if hint := looks_like(keys.renamed(record), requested_format):
        return f"these keys look like format {hint}: --format {hint}"
    return f"--map says what the keys are called here, as in --map prompt=KEY; the record has {keys_of(record)}"


def how_to_import(path: Path, out: str) -> str:
    """The command that converts a file without a usable line into this package's format.

    Args:
        path: of the file.
        out: name of the file to write.
    """
    typed = f"workings data import {shlex.quote(str(path))} --out {out}"
    try:
        first = next(open_file(path).records(lambda _: None), None)
    except RequestError:  # typed, it says what is wrong with the file as a whole
        return typed
    value = first.value if isinstance(first, SourceRecord) else None
    if not isinstance(value, dict):
        return typed
    if not looks_like(value):
        return f"{typed} --format FORMAT --map KEY=KEY; the records have {keys_of(value)}"
    return typed


def format_of(source: RecordSource, keys: KeyMap) -> str:
    """The format that the first records of a source look like.

    Raises:
        RequestError: they look like none.
    """
    # A few, because the first may be a bad one; no more, because a source may be gigabytes.
    values = [keys.renamed(record.value) for record in islice(source.records(lambda _: None), _LOOKED_AT)
              if isinstance(record, SourceRecord) and isinstance(record.value, dict)]
    form = next((form for value in values if (form := looks_like(value))), "") or next(
        (form for value in values if (form := by_a_key(value))), "")
    if not form:
        has = f"; the first record has {keys_of(values[0])}" if values else ""
        raise RequestError(f"no --format{has}", "one of those that `workings data list` names",
                           "workings data list; --map KEY=KEY where a format's keys have other names here, or "
                           "--columns NAME,NAME for a table without a line of names")
    return form


def by_a_key(record: Mapping[str, Any]) -> str:
    """The format of conversations whose key a record has, whatever is wrong with its turns; else empty."""
    return next((form for key, form in (("messages", "messages"), ("conversations", "sharegpt")) if key in record), "")


_LOOKED_AT = 20
