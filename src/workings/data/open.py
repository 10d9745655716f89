"""A data set by name: a file, or a shipped set."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from workings.data.generators.base import ItemRecord, items_bytes
from workings.data.lazy_sequence import TraceFile
from workings.data.named_sets import make_set, shipped_sets
from workings.data.traces import Trace
from workings.errors import RequestError
from workings.hints import no_file


@dataclass(frozen=True, kw_only=True)
class OpenedTraces:
    """Traces, and the digest by which they can be recognized."""

    name: str
    """Path, or shipped name."""
    traces: Sequence[Trace]
    """The traces; those of a file are read at the first access (see `workings.data.lazy_sequence`)."""
    sha256: str
    """Digest of the file, or of the file that a shipped name means."""


def open_traces(name: str, base: Path = Path(), more: str = "") -> OpenedTraces:
    """The traces of a file (relative to ``base``), or of a shipped name such as `dev-reasoning`.

    A file takes precedence over a shipped name; ``more``: further accepted values, for the message. Raises
    `RequestError` without either, or for a set of items.
    """
    # An absolute name replaces `base` in the join.
    path = base / Path(name).expanduser()
    if path.is_file():
        file = TraceFile(path)
        return OpenedTraces(name=name, traces=file, sha256=file.sha256)
    shipped = shipped_sets()
    if name not in shipped:
        raise RequestError(f"traces: {no_file(path)}", f"a file of traces{more}, or a data set: {_names('traces')}",
                           "workings data list")
    if shipped[name].holds != "traces":
        raise RequestError(f"traces: {name} is a set of items", f"one of {_names('traces')}",
                           "workings data list")
    # The digest is of the bytes that a file of these traces would have, so both are known as the same data.
    return OpenedTraces(name=name, traces=make_set(name)[0], sha256=shipped[name].sha256)


def open_items_file(name: str, into: Path) -> Path:
    """The file of items that a name means: itself when it is a file, else the shipped set written to ``into``.

    Raises `RequestError` without either.
    """
    path = Path(name).expanduser()
    if path.is_file():
        return path
    into.write_bytes(items_bytes(shipped_items(name, path)))
    return into


def shipped_items(name: str, path: Path, more: str = "") -> list[ItemRecord]:
    """The items of a shipped set.

    Args:
        name: of the set.
        path: the missing file, for the message.
        more: further accepted values, for the message.

    Raises:
        RequestError: no shipped set of that name holds items.
    """
    shipped = shipped_sets()
    if name not in shipped or shipped[name].holds != "items":
        raise RequestError(f"items: {no_file(path)}", f"a file of items{more}, or one of {_names('items')}",
                           "workings data list")
    return make_set(name)[1]


def _names(holds: str) -> str:
    return ", ".join(name for name, recipe in shipped_sets().items() if recipe.holds == holds)
