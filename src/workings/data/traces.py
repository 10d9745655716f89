"""Traces: what a model is taught from. One JSON object a line, UTF-8.

A trace is a question, the steps that lead to its answer, and the answer. Files of other shapes become traces through
`workings.data.importing`; everything else sees traces only. They are read and written here, rendered as the text that
a model learns to write, and compared.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workings.errors import RecordError, RequestError
from workings.record import atomic, canonical

LABELS = ("section", "category", "difficulty", "source", "licence")
"""Optional text fields of a trace. An empty text means that the file does not have it; it is not written back."""
STYLES = ("tags", "think", "channel", "hashes", "answer_only")
"""The values of the recipe key `data.reasoning`."""
# The line break belongs to the opening tag of `think` and of `channel`: `workings.models.chat` compares with what
# templates write.
_MARKS = {"tags": ("<reasoning>", "</reasoning><answer>", "</answer>"),
          "think": ("<think>\n", "\n</think>\n\n", ""),
          "channel": ("<|channel>thought\n", "\n<channel|>", ""),
          "hashes": ("", "\n#### ", "")}


@dataclass(frozen=True, kw_only=True)
class Trace:
    """One question with its worked answer."""

    id: str
    """Unique in its file; decides the row's place in an epoch."""
    prompt: str
    """The question, without any chat turn around it."""
    steps: tuple[str, ...]
    """The reasoning, a text a step; empty where the source has none."""
    answer: str
    """The final answer alone."""
    history: tuple[tuple[str, str], ...] = ()
    """Earlier turns of a conversation as (role, text), role `system`, `user` or `assistant`; the assistant's are
    learned where the recipe says `data.learn: all`, the others never."""
    section: str = ""
    """Part of the data set, e.g. `core`."""
    category: str = ""
    """Kind of problem."""
    difficulty: str = ""
    """How hard it is, e.g. `easy`."""
    source: str = ""
    """Where it comes from: a file, a data set id with revision, a generator with version and seed."""
    licence: str = ""
    """Licence of the source, as an SPDX id where there is one."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Whatever else the source said; kept, never interpreted."""

    def to_json(self) -> dict[str, Any]:
        """The trace as one flat JSON object; metadata stands beside the known keys, empty labels are left out."""
        record: dict[str, Any] = {"id": self.id, "prompt": self.prompt, "steps": list(self.steps),
                                  "answer": self.answer}
        if self.history:
            record["history"] = [{"role": role, "content": text} for role, text in self.history]
        record |= {name: getattr(self, name) for name in LABELS if getattr(self, name)}
        return record | {key: value for key, value in self.metadata.items() if key not in record}


def trace_from_json(record: object, *, escapes: bool = True) -> Trace:
    """The trace that a parsed line holds.

    Args:
        record: the line's JSON value.
        escapes: whether the line may have held escaped characters, which alone can be half a surrogate pair.

    Raises:
        ValueError: with a reason that fits behind `file:line:`, when a field is missing or has the wrong type.
    """
    if not isinstance(record, dict):
        raise ValueError(f"a JSON object was expected, not {kind_of(record)}")
    steps = record.get("steps", [])
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise ValueError("`steps` must be a list of texts")
    if escapes:
        refuse_half_surrogates(record)
    known = {"id", "prompt", "steps", "answer", "history", *LABELS}
    return Trace(
        id=text_of(record, "id"),
        prompt=text_of(record, "prompt"),
        steps=tuple(steps),
        answer=text_of(record, "answer"),
        history=history_of(record.get("history", [])),
        **{name: text_of(record, name) if name in record else "" for name in LABELS},
        metadata={key: value for key, value in record.items() if key not in known},
    )


def iterate_traces(path: Path) -> Iterator[Trace]:
    """The traces of a file, one after the other, in constant memory but for the set of ids.

    Raises:
        RequestError: naming file and line, when the file is absent or a line is not a trace or repeats an id.
    """
    if not path.is_file():
        raise RequestError(f"traces: {path}", "a file of traces, one JSON object a line",
                           "workings data make addition --out traces.jsonl")
    seen: set[str] = set()
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                # UTF-8 cannot hold half a surrogate pair, so lines without an escape are spared the check.
                trace = trace_from_json(canonical.loads(line), escapes=b"\\u" in line)
            except (ValueError, RecordError) as error:
                raise _bad_line(path, number, str(error)) from None
            if trace.id in seen:
                raise _bad_line(path, number, f"id {trace.id!r} stands in an earlier line already")
            seen.add(trace.id)
            yield trace


def read_traces(path: Path) -> list[Trace]:
    """All traces of a file; see `iterate_traces`. An empty file is an error.

    Raises:
        RequestError: as `iterate_traces`, or when there is no trace at all.
    """
    traces = list(iterate_traces(path))
    if not traces:
        raise RequestError(f"traces: {path} is empty", "at least one trace",
                           "workings data make addition --out traces.jsonl")
    return traces


def traces_bytes(traces: Iterable[Trace]) -> bytes:
    """The traces as JSON lines, keys in a fixed order, so that equal traces give equal bytes."""
    # Digests of the shipped sets are of these bytes: another spacing would be other data.
    return b"".join(json.dumps(trace.to_json(), ensure_ascii=False).encode() + b"\n" for trace in traces)


def write_traces(path: Path, traces: Iterable[Trace]) -> None:
    """Write traces as JSON lines, atomically."""
    atomic.write_bytes(path, traces_bytes(traces))


def _bad_line(path: Path, number: int, reason: str) -> RequestError:
    return RequestError(f"{path}:{number}: {reason}",
                        "one trace a line: id, prompt, steps, answer",
                        f"workings data import --format traces {path} --out traces.jsonl --on-error skip")


def refuse_half_surrogates(record: object) -> None:
    """Raise `ValueError` where a text of a JSON value, however deep, is no valid Unicode."""
    try:
        # Encoding reaches every nested text, keys and metadata included; half a surrogate pair has no UTF-8.
        json.dumps(record, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        raise ValueError("half a surrogate pair, which is not text") from None


def text_of(record: Mapping[str, Any], key: str) -> str:
    """A text of a line. Raises `ValueError` where it is missing, is no text, or is empty and must not be."""
    if key not in record:
        raise ValueError(f"`{key}` is missing")
    value = record[key]
    if not isinstance(value, str):
        raise ValueError(f"`{key}` must be a text, not {kind_of(value)}")
    if key in ("id", "prompt", "answer", "chosen", "rejected") and not value.strip():
        raise ValueError(f"`{key}` is empty")
    return value


def history_of(turns: object) -> tuple[tuple[str, str], ...]:
    """Earlier turns as (role, text). Raises `ValueError` where they are none."""
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


def completion_text(trace: Trace, reasoning: str) -> str:
    """What the model has to write after the prompt, without any chat turn around it.

    Args:
        trace: steps and answer.
        reasoning: one of `STYLES`.

    Raises:
        RequestError: when the style shows steps and the trace has none: such a row would teach that there are none.
    """
    if reasoning == "answer_only":
        return trace.answer
    # Empty tags would be a row that teaches a model to answer without reasoning, so it is an error instead.
    if not any(step.strip() for step in trace.steps):
        raise RequestError(f"trace {trace.id}: no steps", f"steps, because data.reasoning is {reasoning}",
                           "data.reasoning=answer_only, or traces with steps")
    if reasoning not in _MARKS:
        raise RequestError(f"data.reasoning: {reasoning}", f"one of {', '.join(STYLES)}")
    before, between, after = _MARKS[reasoning]
    return before + "\n".join(trace.steps) + between + trace.answer + after


def split_completion(text: str, reasoning: str) -> tuple[tuple[str, ...], str] | None:
    """Steps and answer of which `completion_text` makes exactly this text; None where there are none.

    Args:
        text: what a model wrote, without its stop token.
        reasoning: one of `STYLES`.
    """
    if reasoning == "answer_only":
        return ((), text) if text.strip() else None
    before, between, after = _MARKS[reasoning]
    if not text.startswith(before) or not text.endswith(after):
        return None
    steps, mark, answer = text.removeprefix(before).removesuffix(after).partition(between)
    # What begins and ends right may still lack its middle, or hold nothing.
    return (tuple(steps.split("\n")), answer) if mark and steps.strip() and answer.strip() else None


@dataclass(frozen=True, kw_only=True)
class TraceDiff:
    """Differences of B seen from A. Order of the records does not count: it does not decide the order of training."""

    added: tuple[str, ...]
    removed: tuple[str, ...]
    changed: dict[str, tuple[str, ...]]
    """The keys that differ, by id."""
    same: int

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not (self.added or self.removed or self.changed)

    def to_json(self) -> dict[str, Any]:
        """For `--json`."""
        return {"equal": self.equal, "same": self.same, "added": list(self.added), "removed": list(self.removed),
                "changed": {name: list(keys) for name, keys in self.changed.items()}}


def diff_traces(a: Iterable[Trace], b: Iterable[Trace]) -> TraceDiff:
    """Compare two sets of traces; ids are unique in each."""
    # Both sets lie in memory, because they are compared by id, whatever their order.
    before = {trace.id: trace.to_json() for trace in a}
    after = {trace.id: trace.to_json() for trace in b}
    changed = {}
    for name in before.keys() & after.keys():
        keys = sorted(before[name].keys() | after[name].keys())
        if differing := tuple(key for key in keys if before[name].get(key) != after[name].get(key)):
            changed[name] = differing
    return TraceDiff(added=tuple(sorted(after.keys() - before.keys())),
                     removed=tuple(sorted(before.keys() - after.keys())),
                     changed=dict(sorted(changed.items())),
                     same=len(before.keys() & after.keys()) - len(changed))
