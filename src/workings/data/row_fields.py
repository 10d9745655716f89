"""What files of traces, pairs and verdicts share: a JSON object a line, its id, question, labels and earlier turns."""

import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from workings.data.columns import refuse_media, refuse_unread
from workings.data.garbage import rare_collections
from workings.errors import RecordError, RequestError
from workings.hints import no_file
from workings.models.turns import Turn
from workings.record import canonical

LABELS = ("section", "category", "difficulty", "source", "licence")
"""Optional text fields of a line. An empty text means that the file does not have it; it is not written back."""
_SHARED_KEYS = frozenset(("history", "tool_turns", "tools", *LABELS))
"""Keys that a line of every kind may have."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The question of a line, and its optional labels."""

    id: str
    """Unique in its file; decides the place in an epoch."""
    prompt: str
    """The question, without any chat turn around it; empty for a raw text."""
    history: tuple[Turn, ...] = ()
    """Turns before the question; the assistant's are learned where the recipe says `data.learn: all` and the turn is
    not marked, the others never."""
    tool_turns: tuple[Turn, ...] = ()
    """Turns between the question and the answer: tool calls and their results."""
    tools: str = ""
    """Descriptions of the tools that may be called, as JSON (a list)."""
    section: str = ""
    category: str = ""
    difficulty: str = ""
    source: str = ""
    """Origin: a file, a data set id with revision, a generator with version and seed."""
    licence: str = ""
    """Licence of the source, as an SPDX id if there is one."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Everything else from the source; kept, never interpreted."""
    OWN: ClassVar[tuple[str, ...]] = ("id", "prompt")
    """Keys of a line that only this kind has, in their order."""

    def __post_init__(self) -> None:
        # Turns that say nothing but a role and a text may be given as pairs.
        object.__setattr__(self, "history", tuple(Turn(*turn) for turn in self.history))

    def to_json(self) -> dict[str, Any]:
        """One flat JSON object: the kind's own keys, then turns, labels and metadata, without empty ones."""
        record = self.own_json()
        for name in ("history", "tool_turns"):
            if turns := getattr(self, name):
                record[name] = [turn.to_json() for turn in turns]
        if self.tools:
            record["tools"] = json.loads(self.tools)
        record |= {name: getattr(self, name) for name in LABELS if getattr(self, name)}
        # A known key wins: metadata may come from a source with the same names.
        return record | {key: value for key, value in self.metadata.items() if key not in record}

    def own_json(self) -> dict[str, Any]:
        """The kind's own keys."""
        return {name: getattr(self, name) for name in self.OWN}


def texts_of(record: Mapping[str, Any], keys: Iterable[str]) -> dict[str, Any]:
    """Required texts of a line, by key. Errors as of `text_of`."""
    return {key: text_of(record, key) for key in keys}


def labels_of(record: Mapping[str, Any], own: Collection[str]) -> dict[str, Any]:
    """The fields of `Labelled` in a parsed line whose other known keys are ``own``; `ValueError` where one is wrong."""
    fields: dict[str, Any] = {}
    metadata = {key: value for key, value in record.items() if key not in own and key not in _SHARED_KEYS}
    if metadata:
        read = {key: value for key, value in record.items() if key not in metadata}
        refuse_media(metadata, "the record")
        refuse_unread(metadata, read)
        fields["metadata"] = metadata
    for name in ("history", "tool_turns"):
        if name in record:
            fields[name] = history_of(record[name], name)
    if record.get("tools"):
        fields["tools"] = tools_text(record["tools"])
    return fields | texts_of(record, [name for name in LABELS if name in record])


def object_of(record: object) -> dict[str, Any]:
    """A line's JSON value, which must be an object. Raises `ValueError` with a reason to follow ``file:line:``."""
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object was expected, not {kind_of(record)}")
    return record


Line = TypeVar("Line", bound=Labelled)


@dataclass(frozen=True, kw_only=True)
class LineFile(Generic[Line]):
    """A kind of file with one JSON object a line: how a line is read, and the words of its errors."""

    name: str
    """What it holds: `traces`."""
    keys: str
    texts: tuple[str, ...]
    """Keys whose values are texts in every line, and that tell it from lines of other forms."""
    form: str
    """The format of its lines, for the command that imports others."""
    make: str
    """A command that makes such a file."""
    from_json: Callable[[object], Line]
    """Makes an entry of a line's JSON value. Raises `ValueError` with a reason to follow ``file:line:``."""

    def iterate(self, path: Path) -> Iterator[Line]:
        """The entries of a file, one after the other, in constant memory but for the set of ids.

        Raises `RequestError` if the file is absent, and naming a line that is no entry or repeats an id.
        """
        if not path.is_file():
            raise RequestError(f"{self.name}: {no_file(path)}", f"a file of {self.name}, one JSON object a line",
                               self.make)
        seen: set[str] = set()
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    value = canonical.loads(line)
                    # UTF-8 cannot hold half a surrogate pair, so lines without an escape are spared the check.
                    if b"\\u" in line:
                        refuse_broken_text(value)
                    entry = self.from_json(with_id(value, number))
                    if entry.id in seen:
                        raise ValueError(f"id {entry.id!r} is in an earlier line already")
                except (ValueError, RecordError) as error:
                    # An invalid first line shows that the file holds something else.
                    out = f"{self.name.split()[-1]}.jsonl"
                    command = import_command(path, out) if number == 1 else (
                        f"workings data import --format {self.form} {path} --out {out} --on-error skip")
                    raise RequestError(f"{path}:{number}: {error}",
                                       f"one {self.name.removesuffix('s')} a line: {self.keys}", command) from None
                seen.add(entry.id)
                yield entry

    @rare_collections()
    def read(self, path: Path) -> list[Line]:
        """All entries of a file. Raises `RequestError` as `iterate`, and where there is none."""
        if entries := list(self.iterate(path)):
            return entries
        raise RequestError(f"{self.name}: {path} is empty", f"at least one {self.name.removesuffix('s')}", self.make)


def import_command(path: Path, out: str) -> str:
    """The command that converts a file of another form."""
    return f"workings data import {shlex.quote(str(path))} --out {out}"


def with_id(value: object, number: int) -> object:
    """A line's value; an object without an `id` gets the number of its line as one."""
    if not isinstance(value, dict) or value.get("id") is not None:
        return value
    return {**value, "id": f"{NUMBERED}{number:07d}"}


NUMBERED = "line-"
"""Begins the ids of lines that have none."""


def path_beside(path: Path, ending: str) -> Path:
    """A file next to a file of lines, named after it: `traces.jsonl` and `items.jsonl` give `traces.items.jsonl`."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}.{ending}")


def lines_bytes(records: Iterable[Mapping[str, Any]]) -> bytes:
    """JSON lines, keys in the order given, so that equal records give equal bytes."""
    # Digests of the shipped sets are of these bytes: another spacing would be other data.
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""The escape of NUL in JSON; after an odd number of backslashes the same letters are text."""


def refuse_broken_text(record: object) -> None:
    """Raises `ValueError` if a text of a JSON value, however deep, is not valid Unicode or holds a NUL character."""
    # JSON reaches every nested text, keys and metadata included; half a surrogate pair has no UTF-8.
    whole = json.dumps(record, ensure_ascii=False)
    try:
        whole.encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair, which is not text") from None
    if _NUL.search(whole):
        raise ValueError("a NUL character, which is not text")


def text_of(record: Mapping[str, Any], key: str, *, may_be_empty: bool = False) -> str:
    """A text of a line. Raises `ValueError` if it is missing, not a text, or empty although it must not be."""
    if key not in record:
        raise ValueError(f"`{key}` is missing")
    value = record[key]
    if not isinstance(value, str):
        raise ValueError(f"`{key}` must be a text, not {kind_of(value)}")
    # Other texts, such as those of earlier turns, may be empty.
    if not may_be_empty and key in ("id", "prompt", "answer", "chosen", "rejected", "completion") and not value.strip():
        raise ValueError(f"`{key}` is empty")
    return value


def history_of(turns: object, name: str = "history") -> tuple[Turn, ...]:
    """Turns of a line's list, which ``name`` names. Raises `ValueError` if they are not valid turns."""
    if not isinstance(turns, list):
        raise ValueError(f"`{name}` must be a list of turns")
    history = []
    for turn in turns:
        if not isinstance(turn, dict) or turn.get("role") not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"a turn of `{name}` must have a role (system, user, assistant or tool) and content")
        learned = turn.get("learned", True)
        if not isinstance(learned, bool):
            raise ValueError(f"`learned` of a turn of `{name}` must be true or false")
        if unknown := sorted(turn.keys() - {"role", "content", "learned", *TURN_KEYS}):
            raise ValueError(f"a turn of `{name}` has `{unknown[0]}`, which no model would be shown")
        more = calls_text({key: turn[key] for key in TURN_KEYS if turn.get(key)})
        history.append(Turn(turn["role"], text_of(turn, "content"), learned, more))
    return tuple(history)


TURN_KEYS = ("tool_calls", "name", "tool_call_id")
"""Allowed fields of a turn besides role and text."""


def calls_text(more: Mapping[str, Any]) -> str:
    """What a turn says in addition to its role and text, as JSON; calls in the form that chat templates take.

    Raises `ValueError` for calls that are no list, and for one without a name or whose arguments are no JSON object.
    """
    calls = _parsed(more.get("tool_calls", []), [], "`tool_calls` is a text that is not JSON")
    if not isinstance(calls, list):
        raise ValueError(f"`tool_calls` must be a list of calls, not {kind_of(calls)}")
    calls = [_call(call) for call in calls]
    return json.dumps({**more, **({"tool_calls": calls} if calls else {})}, ensure_ascii=False) if more else ""


def _parsed(value: object, empty: object, problem: str) -> Any:
    """A value, or what a text of JSON holds. Raises `ValueError` with ``problem``."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else empty
    except ValueError:
        raise ValueError(problem) from None


def _named(value: object) -> dict[str, Any] | None:
    """The inner object of `{function: {name, …}}`, or an object with a name; None for anything else."""
    inner = value.get("function", value) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) and isinstance(inner.get("name"), str) else None


def _call(call: Any) -> dict[str, Any]:
    if (function := _named(call)) is None:
        raise ValueError("a call of a tool must have a name: {function: {name, arguments}}")
    # Servers write arguments as a text of JSON, which templates would put in quotes.
    arguments = _parsed(function.get("arguments", {}), {}, f"arguments of a call of {function['name']} are not JSON")
    if not isinstance(arguments, dict):
        raise ValueError(f"arguments of a call of {function['name']} must be an object, not {kind_of(arguments)}")
    identity = {"id": call["id"]} if call.get("id") else {}
    return {**identity, "type": "function",
            "function": {"name": function["name"], "arguments": _without_nulls(arguments)}}


def tools_text(tools: object) -> str:
    """Descriptions of tools as JSON, of a list or a text that holds one. Raises `ValueError` where one has no name."""
    tools = _parsed(tools, [], "`tools` is a text that is not JSON")
    if not isinstance(tools, list):
        raise ValueError(f"`tools` must be a list of descriptions, not {kind_of(tools)}")
    if not all(map(_named, tools)):
        raise ValueError("a tool must have a name: {type: function, function: {name, description, parameters}}")
    # Rows of parquet have every key, with null if unused.
    return json.dumps(_without_nulls(tools), ensure_ascii=False) if tools else ""


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def kind_of(value: object) -> str:
    """The kind of a JSON value, for messages."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number",
             float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
