"""Traces: worked examples to learn from. One JSON object per line, UTF-8.

A trace is a question, the steps that lead to its answer, and the answer; or a raw text, which is learned whole. Files
of other shapes become traces through `workings.data.importing`; everything else sees traces only. They are read and
written here, rendered as the text that a model learns to write, and compared.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.columns import refuse_keys_with_text
from workings.data.importing.completion import final_answer
from workings.data.row_fields import (
    LABELS,
    Labelled,
    LineFile,
    calls_text,
    labels_of,
    lines_bytes,
    object_of,
    text_of,
    texts_of,
)
from workings.errors import RequestError
from workings.record import atomic

STYLES = ("tags", "think", "channel", "hashes", "answer_only")
"""The values of the recipe key `data.reasoning`."""
# The line break belongs to the opening tag of `think` and of `channel`: `workings.models.chat` compares with what
# templates write.
_MARKS = {"tags": ("<reasoning>", "</reasoning><answer>", "</answer>"),
          "think": ("<think>\n", "\n</think>\n\n", ""),
          "channel": ("<|channel>thought\n", "\n<channel|>", ""),
          "hashes": ("", "\n#### ", "")}


@dataclass(frozen=True, kw_only=True)
class Trace(Labelled):
    """One question with its worked answer."""

    steps: tuple[str, ...]
    """The reasoning, a text a step; empty if the source has no reasoning."""
    answer: str
    """The final answer only; empty if the last turn only calls tools. For a raw text all of it."""
    calls: str = ""
    """Calls of tools with which the last turn ends, as JSON (an object with `tool_calls`)."""

    @property
    def is_text(self) -> bool:
        """Whether this is a raw text: no question, no turns, every token learned."""
        return not self.prompt

    @property
    def subject(self) -> str:
        """What tells this trace from others: the question, or the raw text."""
        return self.prompt or self.answer

    def own_json(self) -> dict[str, Any]:
        """The keys of a trace, or of a raw text."""
        if self.is_text:
            return {"id": self.id, "text": self.answer}
        return {"id": self.id, "prompt": self.prompt, "steps": list(self.steps), "answer": self.answer,
                **(json.loads(self.calls) if self.calls else {})}


def trace_from_json(record: object) -> Trace:
    """The trace that a parsed line holds. Raises `ValueError` for anything else."""
    line = object_of(record)
    if "text" in line and not {"prompt", "answer"} & line.keys():
        return _text_from_json(line)
    steps = line.get("steps", [])
    if not isinstance(steps, list) or not all(isinstance(step, str) for step in steps):
        raise ValueError("`steps` must be a list of texts")
    calls = calls_text({"tool_calls": line["tool_calls"]}) if line.get("tool_calls") else ""
    answer = text_of({"answer": "", **line} if calls else line, "answer", may_be_empty=bool(calls))
    return Trace(**texts_of(line, ("id", "prompt")), answer=answer, steps=tuple(steps), calls=calls,
                 **labels_of(line, ("id", "prompt", "steps", "answer", "tool_calls")))


def _text_from_json(line: dict[str, Any]) -> Trace:
    refuse_keys_with_text(line)
    texts = texts_of(line, ("id", "text"))
    if not texts["text"].strip():
        raise ValueError("`text` is empty")
    return Trace(id=texts["id"], prompt="", steps=(), answer=texts["text"], **labels_of(line, ("id", "text")))


TRACES = LineFile(name="traces", keys="id, prompt, steps, answer; or a raw text: text", texts=("prompt", "answer"),
                  form="traces", make="workings data make addition --out DIRECTORY", from_json=trace_from_json)
iterate_traces, read_traces = TRACES.iterate, TRACES.read


def traces_bytes(traces: Iterable[Trace]) -> bytes:
    """The traces as JSON lines, keys in a fixed order, so that equal traces give equal bytes."""
    return lines_bytes(trace.to_json() for trace in traces)


def write_traces(path: Path, traces: Iterable[Trace]) -> None:
    """Write traces as JSON lines, atomically."""
    atomic.write_bytes(path, traces_bytes(traces))


def item_json(trace: Trace, labels: Iterable[str] = LABELS[:3]) -> dict[str, Any]:
    """The question of a trace as a line that `workings eval --items` reads, with these labels and without the steps."""
    return {"id": trace.id, "prompt": trace.prompt, "expected_answer": final_answer(trace.answer),
            **{name: label for name in labels if (label := getattr(trace, name))}}


def items_bytes(traces: Iterable[Trace]) -> bytes:
    """The questions of traces as JSON lines of items."""
    return lines_bytes(map(item_json, traces))


def write_items(path: Path, traces: Iterable[Trace]) -> None:
    """Write the questions of traces as items, atomically."""
    atomic.write_bytes(path, items_bytes(traces))


def completion_text(trace: Trace, reasoning: str) -> str:
    """The text that the model has to write after the prompt, without any chat turn around it, in one of `STYLES`.

    Raises `RequestError` if the style shows steps and the trace has none: such a row would teach to leave them out.
    """
    if reasoning == "answer_only":
        return trace.answer
    if not any(step.strip() for step in trace.steps):
        raise RequestError(f"trace {trace.id} has no steps", f"steps, because data.reasoning is {reasoning}",
                           "data.reasoning=answer_only, or traces with steps")
    if reasoning not in _MARKS:
        raise RequestError(f"data.reasoning cannot be {reasoning}", f"one of {', '.join(STYLES)}")
    before, between, after = _MARKS[reasoning]
    return before + "\n".join(trace.steps) + between + trace.answer + after


def completion_form(reasoning: str) -> str:
    """What `completion_text` writes for a style, with `…` for steps and answer."""
    before, between, after = _MARKS.get(reasoning, ("", "", ""))
    return f"{before}…{between}…{after}" if between else "…"


def split_completion(text: str, reasoning: str) -> tuple[tuple[str, ...], str] | None:
    """Steps and answer from which `completion_text` makes exactly this text; None if that is impossible."""
    if reasoning == "answer_only":
        return ((), text) if text.strip() else None
    before, between, after = _MARKS[reasoning]
    if not text.startswith(before) or not text.endswith(after):
        return None
    steps, mark, answer = text.removeprefix(before).removesuffix(after).partition(between)
    # A correct beginning and end may still have a wrong middle.
    return (tuple(steps.split("\n")), answer) if mark and steps.strip() and answer.strip() else None
