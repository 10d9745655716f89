"""Traces: worked examples to learn from. A file of traces has one JSON object per line, in UTF-8.

    {"id": "add-1", "prompt": "What is 47+25?", "steps": ["7+5=12", "4+2+1=7"], "answer": "72"}
    {"id": "page-1", "text": "A raw text: the model learns every token of it."}

This module reads and writes traces, and renders each as the text that a model learns to write. The package
`workings.data.importing` makes traces of other files.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.columns import refuse_keys_with_text
from workings.data.importing.completion import StepsAndAnswer, final_answer
from workings.data.row_fields import (
    ITEM_LABELS,
    Labelled,
    LineFile,
    calls_text,
    labels_of,
    lines_bytes,
    object_of,
    text_of,
)
from workings.errors import RequestError
from workings.record import atomic

_MARKS = {"tags": ("<reasoning>", "</reasoning><answer>", "</answer>"),
          "think": ("<think>\n", "\n</think>\n\n", ""),
          "channel": ("<|channel>thought\n", "\n<channel|>", ""),
          "hashes": ("", "\n#### ", "")}
"""Style -> texts before the steps, before the answer and after it. Line breaks are those that chat templates write."""
STYLES = (*_MARKS, "answer_only")
"""The values of the recipe key `data.reasoning`."""


@dataclass(frozen=True, kw_only=True)
class Trace(Labelled):
    """One question with its worked answer."""

    steps: tuple[str, ...]
    """The reasoning, one text for each step; empty if the source has no reasoning."""
    answer: str
    """The final answer alone; empty if the last turn only calls tools. Of a raw text the whole text."""
    calls: str = ""
    """Tool calls at the end of the last turn, as JSON (an object with `tool_calls`); empty without calls."""

    @property
    def is_text(self) -> bool:
        """Whether this is a raw text: no question, no turns, every token learned."""
        return not self.prompt

    @property
    def subject(self) -> str:
        """The question, or the raw text."""
        return self.prompt or self.answer

    def own_json(self) -> dict[str, Any]:
        """The keys of a trace, or of a raw text."""
        if self.is_text:
            return {"id": self.id, "text": self.answer}
        return {"id": self.id, "prompt": self.prompt, "steps": list(self.steps), "answer": self.answer,
                **(json.loads(self.calls) if self.calls else {})}


def trace_from_json(record: object) -> Trace:
    """The trace of a parsed line. Raises `ValueError` if the line is no trace."""
    line = object_of(record)
    if "text" in line and "prompt" not in line and "answer" not in line:
        return _text_from_json(line)
    steps = line.get("steps", [])
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise ValueError("`steps` must be a list of texts")
    if line.get("tool_calls"):
        calls = calls_text({"tool_calls": line["tool_calls"]})
        answer = text_of({"answer": "", **line}, "answer", may_be_empty=True)
    else:
        calls, answer = "", text_of(line, "answer")
    return Trace(id=text_of(line, "id"), prompt=text_of(line, "prompt"), answer=answer, steps=tuple(steps), calls=calls,
                 **labels_of(line, ("id", "prompt", "steps", "answer", "tool_calls")))


def _text_from_json(line: dict[str, Any]) -> Trace:
    refuse_keys_with_text(line)
    own_id, text = text_of(line, "id"), text_of(line, "text")
    if not text.strip():
        raise ValueError("`text` is empty")
    return Trace(id=own_id, prompt="", steps=(), answer=text, **labels_of(line, ("id", "text")))


TRACES = LineFile(name="traces", keys="id, prompt, steps, answer; or a raw text: text", texts=("prompt", "answer"),
                  form="traces", make="workings data make addition --out DIRECTORY", from_json=trace_from_json)
iterate_traces, read_traces = TRACES.iterate, TRACES.read


def traces_bytes(traces: Iterable[Trace]) -> bytes:
    """The traces as JSON lines, keys in a fixed order, so that equal traces give equal bytes."""
    return lines_bytes(trace.to_json() for trace in traces)


def write_traces(path: Path, traces: Iterable[Trace]) -> None:
    """Write traces as JSON lines, atomically."""
    atomic.write_bytes(path, traces_bytes(traces))


def item_json(trace: Trace, labels: Iterable[str] = ITEM_LABELS) -> dict[str, Any]:
    """The question of a trace as a line that `workings eval --items` reads: with these labels, without the steps."""
    present_labels = {name: getattr(trace, name) for name in labels if getattr(trace, name)}
    return {"id": trace.id, "prompt": trace.prompt, "expected_answer": final_answer(trace.answer), **present_labels}


def items_bytes(traces: Iterable[Trace]) -> bytes:
    """The questions of traces as JSON lines of items."""
    return lines_bytes(map(item_json, traces))


def write_items(path: Path, traces: Iterable[Trace]) -> None:
    """Write the questions of traces as items, atomically."""
    atomic.write_bytes(path, items_bytes(traces))


def completion_text(trace: Trace, reasoning: str) -> str:
    """The text that the model has to write after the prompt, in one of `STYLES` and without any chat turn around it.

    Raises `RequestError` if the style shows steps and the trace has none: its row would teach to leave them out.
    """
    if reasoning == "answer_only":
        return trace.answer
    if not any(map(str.strip, trace.steps)):
        raise RequestError(f"trace {trace.id} has no steps", f"steps, because data.reasoning is {reasoning}",
                           "data.reasoning=answer_only, or traces with steps")
    if reasoning not in _MARKS:
        raise RequestError(f"data.reasoning cannot be {reasoning}", f"one of {', '.join(STYLES)}")
    before_steps, before_answer, after_answer = _MARKS[reasoning]
    return before_steps + "\n".join(trace.steps) + before_answer + trace.answer + after_answer


def completion_form(reasoning: str) -> str:
    """What `completion_text` writes, with `…` for steps and answer: `<reasoning>…</reasoning><answer>…</answer>`."""
    return "…" if reasoning == "answer_only" else "…".join(_MARKS[reasoning])


def split_completion(text: str, reasoning: str) -> StepsAndAnswer | None:
    """The steps and the answer from which `completion_text` makes exactly this text; None if there are none."""
    if reasoning == "answer_only":
        return ((), text) if text.strip() else None
    before_steps, before_answer, after_answer = _MARKS[reasoning]
    if not text.startswith(before_steps) or not text.endswith(after_answer):
        return None
    steps, mark, answer = text.removeprefix(before_steps).removesuffix(after_answer).partition(before_answer)
    if not mark or not steps.strip() or not answer.strip():
        return None
    return tuple(steps.split("\n")), answer
