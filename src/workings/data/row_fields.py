"""Fields that files of traces and of preference pairs share: a JSON object a line, its id, labels, earlier turns."""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from workings.errors import RecordError, RequestError
from workings.record import canonical

LABELS = ("section", "category", "difficulty", "source", "licence")
"""Optional text fields of a line. An empty text means that the file does not have it; it is not written back."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Optional labels of a line."""

    history: tuple[tuple[str, str], ...] = ()
    """Earlier turns of a conversation as (role, text), role `system`, `user` or `assistant`; the assistant's are
    learned where the recipe says `data.learn: all`, the others never."""
    section: str = ""
    """Part of the data set, e.g. `core`."""
    category: str = ""
    """Kind of problem."""
    difficulty: str = ""
    """Difficulty, e.g. `easy`."""
    source: str = ""
    """Origin: a file, a data set id with revision, a generator with version and seed."""
    licence: str = ""
    """Licence of the source, as an SPDX id where there is one."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the source said; kept, never interpreted."""

    def with_labels(self, record: dict[str, Any]) -> dict[str, Any]:
        """One flat JSON object: ``record``, then history, labels and metadata; what is empty is left out."""
        if self.history:
            record["history"] = [{"role": role, "content": text} for role, text in self.history]
        record |= {name: getattr(self, name) for name in LABELS if getattr(self, name)}
        # A known key wins: metadata may come from a source with the same names.
        return record | {key: value for key, value in self.metadata.items() if key not in record}


def texts_of(record: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Texts that a line must have, by key; errors as of `text_of`."""
    return {key: text_of(record, key) for key in keys}


def labels_of(record: Mapping[str, Any], own: Iterable[str]) -> dict[str, Any]:
    """The fields of `Labelled` in a parsed line whose other known keys are ``own``; `ValueError` where one is wrong."""
    known_keys = {*own, "history", *LABELS}
    return {"history": history_of(record.get("history", [])),
            **texts_of(record, [name for name in LABELS if name in record]),
            "metadata": {key: value for key, value in record.items() if key not in known_keys}}


def object_of(record: object, *, escapes: bool) -> dict[str, Any]:
    """A line's JSON value, which must be an object of valid texts.

    Args:
        record: the value.
        escapes: whether the line may have held escaped characters, which alone can be half a surrogate pair.

    Raises:
        ValueError: with a reason that fits behind ``file:line:``.
    """
    # A number or a list is valid JSON on a line, and is no record.
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object was expected, not {kind_of(record)}")
    if escapes:
        refuse_half_surrogates(record)
    return record


class _WithId(Protocol):
    @property
    def id(self) -> str: ...


Line = TypeVar("Line", bound=_WithId, covariant=True)


class FromJson(Protocol[Line]):
    """Makes a trace or a pair of a line's JSON value; keywords and errors as of `object_of`."""

    def __call__(self, record: object, /, *, escapes: bool) -> Line:
        """The trace or pair."""


def iterate_lines(path: Path, from_json: FromJson[Line], error_of: Callable[[str], RequestError]) -> Iterator[Line]:
    """The lines of a file, one after the other, in constant memory but for the set of ids.

    Args:
        path: an existing file.
        from_json: makes a trace or a pair of a line.
        error_of: makes the error of a line from ``file:line: reason``.

    Raises:
        RequestError: ``error_of``'s, when a line cannot be parsed or repeats an id.
    """
    seen: set[str] = set()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                # UTF-8 cannot hold half a surrogate pair, so lines without an escape are spared the check.
                record = from_json(canonical.loads(line), escapes=b"\\u" in line)
                if record.id in seen:
                    raise ValueError(f"id {record.id!r} stands in an earlier line already")
            except (ValueError, RecordError) as error:
                raise error_of(f"{path}:{number}: {error}") from None
            seen.add(record.id)
            yield record


def bad_line(path: Path, wrong: str, expected: str, form: str, out: str) -> RequestError:
    """The error of a line that is no trace or no pair, with the command that converts the file into ``out``."""
    # Imported for an error alone: the importer knows traces and pairs.
    from workings.data.importing.hints import how_to_import

    # An invalid first line shows that the file holds something else.
    return RequestError(wrong, expected, how_to_import(path, out) if wrong.startswith(f"{path}:1:") else
                        f"workings data import --format {form} {path} --out {out} --on-error skip")


def path_beside(path: Path, ending: str) -> Path:
    """A file beside a file of lines, which has its name: `traces.jsonl` and `items.jsonl` give `traces.items.jsonl`."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}.{ending}")


def lines_bytes(records: Iterable[Mapping[str, Any]]) -> bytes:
    """JSON lines, keys in the order given, so that equal records give equal bytes."""
    # Digests of the shipped sets are of these bytes: another spacing would be other data.
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def refuse_half_surrogates(record: object) -> None:
    """Raises `ValueError` if a text of a JSON value, however deep, is not valid Unicode."""
    try:
        # Encoding reaches every nested text, keys and metadata included; half a surrogate pair has no UTF-8.
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair, which is not text") from None


def text_of(record: Mapping[str, Any], key: str) -> str:
    """A text of a line. Raises `ValueError` if it is missing, not a text, or empty although it must not be."""
    if key not in record:
        raise ValueError(f"`{key}` is missing")
    value = record[key]
    if not isinstance(value, str):
        raise ValueError(f"`{key}` must be a text, not {kind_of(value)}")
    # Other texts, such as those of earlier turns, may be empty.
    if key in ("id", "prompt", "answer", "chosen", "rejected") and not value.strip():
        raise ValueError(f"`{key}` is empty")
    return value


def history_of(turns: object) -> tuple[tuple[str, str], ...]:
    """Earlier turns as (role, text). Raises `ValueError` if they are not valid turns."""
    if not isinstance(turns, list):
        raise ValueError("`history` must be a list of turns")
    history = []
    for turn in turns:
        if not isinstance(turn, dict) or turn.get("role") not in ("system", "user", "assistant"):
            raise ValueError("a turn of `history` must have a role (system, user or assistant) and content")
        history.append((turn["role"], text_of(turn, "content")))
    return tuple(history)


def kind_of(value: object) -> str:
    """The kind of a JSON value, for messages."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number",
             float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
