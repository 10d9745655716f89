"""What files of traces, pairs and verdicts share: one JSON object a line, with an id, a question, labels and turns.

    {"id": "add-47-25", "prompt": "What is 47+25?", …, "category": "carry_from_ones", "source": "…", "note": "…"}

Keys without a meaning here, such as `note`, are kept as metadata.
"""

import gc
import json
import re
import shlex
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from workings.data.columns import refuse_media, refuse_unread
from workings.errors import RecordError, RequestError
from workings.hints import no_file
from workings.models.turns import Turn
from workings.record import canonical

Line = TypeVar("Line", bound="Labelled")

ITEM_LABELS = ("section", "category", "difficulty")
"""The labels that an evaluation item has too: scores are grouped by them."""
LABELS = (*ITEM_LABELS, "source", "licence")
"""Optional text fields of a line. An empty text means that the file does not have it; it is not written back."""
_SHARED_KEYS = frozenset(("history", "tool_turns", "tools", *LABELS))
"""Keys that a line of every kind may have."""
TURN_KEYS = ("tool_calls", "name", "tool_call_id")
"""Keys that a turn may have besides role and text."""
_NEVER_EMPTY = frozenset(("id", "prompt", "answer", "chosen", "rejected", "completion"))
NUMBERED = "line-"
"""Begins the ids of lines that have none."""
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
"""The escape of NUL in JSON. After a further backslash the same letters are text."""


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """The question of a line, and its optional labels."""

    id: str
    """Unique in its file; decides the place in an epoch."""
    prompt: str
    """The question, without any chat turn around it; empty for a raw text."""
    history: tuple[Turn, ...] = ()
    """Turns before the question. Those of the assistant are learned with `data.learn: all`, unless they are marked."""
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
    """Keys of a line of this kind besides the shared ones, in their order. Each is the name of a field."""

    def __post_init__(self) -> None:
        # Turns with only a role and a text may be given as pairs.
        object.__setattr__(self, "history", tuple([Turn(*turn) for turn in self.history]))

    def to_json(self) -> dict[str, Any]:
        """One flat JSON object: the kind's own keys, then turns, labels and metadata, without empty ones."""
        record = self.own_json()
        for name in ("history", "tool_turns"):
            if turns := getattr(self, name):
                record[name] = [turn.to_json() for turn in turns]
        if self.tools:
            record["tools"] = json.loads(self.tools)
        record |= {name: getattr(self, name) for name in LABELS if getattr(self, name)}
        return record | {key: value for key, value in self.metadata.items() if key not in record}

    def own_json(self) -> dict[str, Any]:
        """The kind's own keys."""
        return {name: getattr(self, name) for name in self.OWN}


def labels_of(record: Mapping[str, Any], own: Collection[str]) -> dict[str, Any]:
    """The shared fields of a parsed line; other keys, except ``own`` ones, become `metadata`. Raises `ValueError`."""
    fields: dict[str, Any] = {}
    if not record.keys() <= _SHARED_KEYS.union(own):
        metadata = {key: value for key, value in record.items() if key not in own and key not in _SHARED_KEYS}
        read = {key: value for key, value in record.items() if key not in metadata}
        refuse_media(metadata, "the record")
        refuse_unread(metadata, read)
        fields["metadata"] = metadata
    for name in ("history", "tool_turns"):
        if name in record:
            fields[name] = history_of(record[name], name)
    if record.get("tools"):
        fields["tools"] = tools_text(record["tools"])
    return fields | {name: text_of(record, name) for name in LABELS if name in record}


def object_of(record: object) -> dict[str, Any]:
    """A line's JSON value, which must be an object. Raises `ValueError` with a reason to follow ``file:line:``."""
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object was expected, not {kind_of(record)}")
    return record


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """Collects no cyclic garbage while the block makes many objects: every collection would visit them in vain."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


@dataclass(frozen=True, kw_only=True)
class LineFile(Generic[Line]):
    """A kind of file with one JSON object a line: how a line is read, and the words of its errors."""

    name: str
    """What it holds: `traces`."""
    keys: str
    """The keys of a line, in words."""
    texts: tuple[str, ...]
    """Keys by which its lines differ from those of other files; all their values are texts."""
    form: str
    """The value of `--format` that gives such lines."""
    make: str
    """A command that makes such a file."""
    from_json: Callable[[object], Line]
    """Makes an entry of a line's JSON value. Raises `ValueError` with a reason to follow ``file:line:``."""

    def iterate(self, path: Path) -> Iterator[Line]:
        """The entries of a file one by one; only the ids stay in memory.

        Raises `RequestError` if there is no file, and for a line that is no entry or repeats an id.
        """
        if not path.is_file():
            raise RequestError(f"{self.name}: {no_file(path)}", f"a file of {self.name}, one JSON object a line",
                               self.make)
        ids: set[str] = set()
        with path.open("rb") as lines:
            for number, line in enumerate(lines, start=1):
                try:
                    value = canonical.loads(line)
                    # Only an escape can be half a surrogate pair or a NUL: other lines need no check.
                    if b"\\u" in line:
                        refuse_broken_text(value)
                    entry = self.from_json(with_id(value, number))
                    if entry.id in ids:
                        raise ValueError(f"id {entry.id!r} is in an earlier line already")
                except (ValueError, RecordError) as error:
                    raise self._wrong_line(path, number, error) from None
                ids.add(entry.id)
                yield entry

    def _wrong_line(self, path: Path, number: int, error: Exception) -> RequestError:
        out = f"{self.name.split()[-1]}.jsonl"
        command = f"workings data import --format {self.form} {path} --out {out} --on-error skip"
        # If the first line is invalid, the file probably holds something else.
        if number == 1:
            command = import_command(path, out)
        return RequestError(f"{path}:{number}: {error}", f"one {self.name.removesuffix('s')} a line: {self.keys}",
                            command)

    @no_garbage_collection()
    def read(self, path: Path) -> list[Line]:
        """All entries of a file. Raises `RequestError` as `iterate`, and for an empty file."""
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


def path_beside(path: Path, ending: str) -> Path:
    """A file next to a file of lines, named after it: `traces.jsonl` and `items.jsonl` give `traces.items.jsonl`."""
    return path.with_name(f"{path.name.removesuffix('.jsonl')}.{ending}")


def lines_bytes(records: Iterable[Mapping[str, Any]]) -> bytes:
    """JSON lines with keys in the order given. The digests of the shipped sets are of these bytes."""
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


def refuse_broken_text(record: object) -> None:
    """Raise `ValueError` if any text in a JSON value, a key included, is not valid Unicode or has a NUL character."""
    whole = json.dumps(record, ensure_ascii=False)
    try:
        whole.encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair, which is not text") from None
    if _NUL.search(whole):
        raise ValueError("a NUL character, which is not text")


def text_of(record: Mapping[str, Any], key: str, *, may_be_empty: bool = False) -> str:
    """A text of a line. Raises `ValueError` if it is missing or no text, or is empty and must not be."""
    value = record.get(key)
    if not isinstance(value, str):
        raise ValueError(f"`{key}` must be a text, not {kind_of(value)}" if key in record else f"`{key}` is missing")
    if key in _NEVER_EMPTY and not may_be_empty and not value.strip():
        raise ValueError(f"`{key}` is empty")
    return value


def history_of(turns: object, name: str = "history") -> tuple[Turn, ...]:
    """The turns of a line's key ``name``. Raises `ValueError` if they are not valid turns."""
    if not isinstance(turns, list):
        raise ValueError(f"`{name}` must be a list of turns")
    history = []
    for turn in turns:
        if not isinstance(turn, dict) or turn.get("role") not in ("system", "user", "assistant", "tool"):
            raise ValueError(f"a turn of `{name}` must have a role (system, user, assistant or tool) and content")
        learned = turn.get("learned", True)
        if not isinstance(learned, bool):
            raise ValueError(f"`learned` of a turn of `{name}` must be true or false")
        unknown = turn.keys() - {"role", "content", "learned", *TURN_KEYS}
        if unknown:
            raise ValueError(f"a turn of `{name}` has `{min(unknown)}`, which no model would be shown")
        more = calls_text({key: turn[key] for key in TURN_KEYS if turn.get(key)})
        history.append(Turn(turn["role"], text_of(turn, "content"), learned, more))
    return tuple(history)


def calls_text(more: Mapping[str, Any]) -> str:
    """What a turn has of `TURN_KEYS`, as JSON, with calls in the form that chat templates take; empty without any.

    Raises `ValueError` for calls that are no list, and for one without a name or whose arguments are no JSON object.
    """
    if not more:
        return ""
    calls = _parsed(more.get("tool_calls", []), [], "`tool_calls` is a text that is not JSON")
    if not isinstance(calls, list):
        raise ValueError(f"`tool_calls` must be a list of calls, not {kind_of(calls)}")
    written = {**more, "tool_calls": [_call(call) for call in calls]} if calls else more
    return json.dumps(written, ensure_ascii=False)


def _parsed(value: object, if_blank: object, problem: str) -> Any:
    """The value of a text of JSON; any other value as it is. Raises `ValueError` with ``problem`` for other texts."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value) if value.strip() else if_blank
    except ValueError:
        raise ValueError(problem) from None


def _function_of(value: object) -> dict[str, Any] | None:
    """The inner object of `{function: {name, …}}`, or an object with a name; None for anything else."""
    inner = value.get("function", value) if isinstance(value, dict) else None
    return inner if isinstance(inner, dict) and isinstance(inner.get("name"), str) else None


def _call(call: Any) -> dict[str, Any]:
    """A call of a tool as `{id, type, function: {name, arguments}}`."""
    function = _function_of(call)
    if function is None:
        raise ValueError("a call of a tool must have a name: {function: {name, arguments}}")
    name = function["name"]
    # Servers write arguments as a text of JSON, which templates would put in quotes.
    arguments = _parsed(function.get("arguments", {}), {}, f"arguments of a call of {name} are not JSON")
    if not isinstance(arguments, dict):
        raise ValueError(f"arguments of a call of {name} must be an object, not {kind_of(arguments)}")
    written = {"type": "function", "function": {"name": name, "arguments": _without_nulls(arguments)}}
    return {"id": call["id"], **written} if call.get("id") else written


def tools_text(tools: object) -> str:
    """Descriptions of tools as JSON, from a list or a text of JSON. Raises `ValueError` for one without a name."""
    tools = _parsed(tools, [], "`tools` is a text that is not JSON")
    if not isinstance(tools, list):
        raise ValueError(f"`tools` must be a list of descriptions, not {kind_of(tools)}")
    if not all(map(_function_of, tools)):
        raise ValueError("a tool must have a name: {type: function, function: {name, description, parameters}}")
    return json.dumps(_without_nulls(tools), ensure_ascii=False) if tools else ""


def _without_nulls(value: Any) -> Any:
    """A JSON value without the keys that are null: rows of parquet have every key."""
    if isinstance(value, dict):
        return {key: _without_nulls(inner) for key, inner in value.items() if inner is not None}
    return [_without_nulls(inner) for inner in value] if isinstance(value, list) else value


def kind_of(value: object) -> str:
    """The kind of a JSON value, for messages."""
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", int: "a number",
             float: "a number", type(None): "null"}
    return names.get(type(value), type(value).__name__)
