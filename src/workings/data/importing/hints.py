"""Guesses a record's format, for requests with another format or without one."""

from collections.abc import Mapping
from itertools import islice
from typing import Any

from workings.data.columns import refuse_media
from workings.data.importing.fields import keys_of
from workings.data.importing.formats import FORMATS
from workings.data.importing.key_map import KeyMap
from workings.data.importing.records import SourceRecord, Unreadable
from workings.data.importing.sources import RecordSource
from workings.errors import RequestError

_MAX_RECORDS = 20
SKIP = "--on-error skip writes such records to another file"


def looks_like(record: Mapping[str, Any], but: str = "") -> str:
    """The first format that reads this record, other than ``but``; empty if none does."""
    return next((name for name in FORMATS if name != but and _reads(name, record)), "")


def _reads(name: str, record: Mapping[str, Any]) -> bool:
    try:
        FORMATS[name].read(record)
    except ValueError:
        return False
    return True


def advice(record: Mapping[str, Any], keys: KeyMap, requested_format: str) -> str:
    """The option to type instead, if the first record of a file is not of the requested format."""
    try:
        refuse_media(record, "the record")
    except ValueError:
        return SKIP
    if mended := keys.mended(record):
        return mended
    renamed = keys.renamed(record)
    if hint := looks_like(renamed, requested_format):
        return f"these keys look like format {hint}: --format {hint}"
    # The keys fit, so something else is wrong with the record.
    if by_a_key(renamed) == requested_format or _reads(requested_format, renamed):
        return SKIP
    return f"--map says what the keys are called here, as in --map prompt=KEY; the record has {keys_of(record)}"


def format_of(source: RecordSource, keys: KeyMap) -> str:
    """The format that the first records of a source look like.

    Raises:
        RequestError: they fit no format.
    """
    # A few, because the first may be a bad one; no more, because a source may be gigabytes.
    first = [*islice(source.records(lambda _: None), _MAX_RECORDS)]
    values = [keys.renamed(record.value) for record in first
              if isinstance(record, SourceRecord) and isinstance(record.value, dict)]
    form = next((form for look in (looks_like, by_a_key) for value in values if (form := look(value))), "")
    if not form:
        if first and not values and isinstance(first[0], Unreadable):
            raise RequestError(f"{source.name}:{first[0].number}: {first[0].reason}", "a record that can be read")
        has = f"; the first record has {keys_of(values[0])}" if values else ""
        raise RequestError(f"unknown format{has}", "--format with a name that `workings data list` prints",
                           "workings data list; --map KEY=KEY for keys with other names, or "
                           "--columns NAME,NAME for a table without a header")
    return form


def by_a_key(record: Mapping[str, Any]) -> str:
    """The format of conversations whose key a record has, even if its turns are wrong; else empty."""
    return next((form for key, form in (("messages", "messages"), ("conversations", "sharegpt")) if key in record), "")
