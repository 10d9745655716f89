"""`data check`: read tolerantly, look at every trace, and write a cleaned set when asked to."""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from workings.data.checking.arithmetic import wrong_equations
from workings.data.checking.findings import CheckReport, TraceFinding, excerpt, shown
from workings.data.checking.overlap import NGRAM, Question, find_leaks, near_duplicates, words
from workings.data.importing.records import Unreadable
from workings.data.importing.sources import open_file
from workings.data.traces import Trace, trace_from_json, write_traces
from workings.record import atomic

_CONTROL = re.compile(r"<(?:bos|eos|pad|unk|start_of_turn|end_of_turn|s|/s)>|<\|[a-z_]{2,40}\|>|"
                      r"</?(?:reasoning|answer|think)>")
_NUMBER = re.compile(r"-?[$€£]?-?\d[\d,]*(?:\.\d+)?%?")

RowProblems = Callable[[Sequence[Trace]], Iterator[tuple[str, str]]]
"""Given traces, yields (id, reason) of those that give no row; see `workings.data.rows.row_problems`."""


@dataclass(frozen=True)
class Numbered:
    """What could be read of a file: traces with their positions, and findings about the rest."""

    traces: list[tuple[int, Trace]]
    findings: list[TraceFinding]
    records: int


def read_tolerantly(path: Path) -> Numbered:
    """All traces of a file; a line that is none becomes a finding.

    Raises:
        RequestError: when the file as a whole cannot be read.
    """
    traces: list[tuple[int, Trace]] = []
    findings: list[TraceFinding] = []
    seen: dict[str, int] = {}
    count = 0
    for position, record in enumerate(open_file(path).records(lambda _: None)):
        count += 1
        place = f"{path.name}:{record.number}"
        try:
            if isinstance(record, Unreadable):
                raise ValueError(record.reason)
            trace = trace_from_json(record.value)
        except ValueError as error:
            findings.append(TraceFinding(kind="unreadable", record=position, id=place, text=str(error)))
            continue
        # From here on findings are about ids, so a second trace of the same id cannot be told apart and is left aside.
        if trace.id in seen:
            findings.append(TraceFinding(kind="repeated_id", record=position, id=trace.id,
                                         text=f"{place} repeats the id of record {seen[trace.id] + 1}"))
            continue
        seen[trace.id] = position
        traces.append((position, trace))
    return Numbered(traces, findings, count)


def check(read: Numbered, questions: Sequence[Question] = (), *, ngram: int = NGRAM,
          row_problems: RowProblems | None = None) -> CheckReport:
    """Every check over traces that were read.

    Args:
        read: see `read_tolerantly`.
        questions: an evaluation set that must not be trained on; empty: not looked at.
        ngram: words of a passage that counts as copied from a question.
        row_problems: what a recipe finds about the rows; None: not looked at.
    """
    findings = list(read.findings)
    for position, trace in read.traces:
        findings += [TraceFinding(kind=kind, record=position, id=trace.id, text=text) for kind, text in _alone(trace)]
    findings += _repeated_questions(read.traces)
    findings += find_leaks(read.traces, questions, ngram) if questions else ()
    if row_problems is not None:
        positions = {trace.id: position for position, trace in read.traces}
        findings += [TraceFinding(kind="row", record=positions[name], id=name, text=text)
                     for name, text in row_problems([trace for _, trace in read.traces])]
    # A stable sort: findings about one record stay in the order of the checks.
    return CheckReport(records=read.records, findings=tuple(sorted(findings, key=lambda found: found.record)))


def write_clean(read: Numbered, report: CheckReport, path: Path) -> tuple[Path, Path]:
    """Write the traces about which nothing that matters was found, and a list of what went, with reasons.

    Returns the two paths: `NAME.clean.jsonl` and `NAME.left_out.jsonl` beside the file.
    """
    gone = report.left_out
    stem = path.name.removesuffix(".jsonl")
    clean, left_out = path.with_name(f"{stem}.clean.jsonl"), path.with_name(f"{stem}.left_out.jsonl")
    # The positions are those of the file, bad lines included, so an unreadable line shifts nothing.
    write_traces(clean, (trace for position, trace in read.traces if position not in gone))
    lines = [{"record": position + 1, "id": found[0].id, "reasons": [finding.to_json() for finding in found]}
             for position, found in sorted(gone.items())]
    atomic.write_bytes(left_out, b"".join(json.dumps(line, ensure_ascii=False).encode() + b"\n" for line in lines))
    return clean, left_out


def _alone(trace: Trace) -> Iterator[tuple[str, str]]:
    """What can be said about one trace without the others."""
    empty = [str(number) for number, step in enumerate(trace.steps, start=1) if not step.strip()]
    if empty:
        yield "empty_step", f"step {', '.join(empty)}"
    # Each step with the one before it; the first has none, so the two are of unequal length.
    again = [step for step, before in zip(trace.steps[1:], trace.steps, strict=False) if step.strip() == before.strip()]
    # Two empty steps in a row are named as empty already.
    if any(step.strip() for step in again):
        yield "repeated_step", shown(again)
    if wrong := [equation for step in (*trace.steps, *_calculations(trace.metadata.get("calculations")))
                 for equation in wrong_equations(step)]:
        # Each once: an equation often stands in a step and again in the annotation taken out of it.
        yield "wrong_equation", shown(list(dict.fromkeys(wrong)))
    texts = (trace.prompt, *trace.steps, trace.answer)
    if forged := [match.group() for text in texts for match in _CONTROL.finditer(text)]:
        yield "control_text", shown(forged)
    if not trace.steps:
        yield "no_steps", excerpt(trace.prompt)
    elif _NUMBER.fullmatch(trace.answer.strip()) and not _mentions(trace.steps, trace.answer):
        yield "answer_not_in_steps", f"{trace.answer}: {excerpt(trace.steps[-1])}"
    if missing := [name for name in ("section", "category", "difficulty") if not getattr(trace, name)]:
        yield "no_label", ", ".join(missing)
    if not trace.licence:
        yield "no_licence", trace.source or "no source either"


def _calculations(found: Any) -> Iterator[str]:
    """Calculator annotations that the import took out of the steps."""
    for step in found if isinstance(found, list) else ():
        yield from (text for text in (step if isinstance(step, list) else ()) if isinstance(text, str))


def _value(text: str) -> Fraction | str:
    """A number by its value, any other text by its words."""
    # Longer numbers stay texts: Python refuses to convert more than 4,300 digits.
    plain = text.strip().strip("$€£%").replace(",", "")
    return Fraction(plain) if re.fullmatch(r"-?\d{1,200}(?:\.\d{1,200})?", plain) else " ".join(words(text))


def _mentions(steps: Sequence[str], answer: str) -> bool:
    value = _value(answer)
    found = (match.group() for step in steps for match in re.finditer(r"-?\d[\d,]*(?:\.\d+)?", step))
    # Signs do not count: in `12-5=7` the 5 is read with a minus in front of it.
    return any(_value(number.rstrip(",")) in (value, value if isinstance(value, str) else -value) for number in found)


def _repeated_questions(traces: Sequence[tuple[int, Trace]]) -> list[TraceFinding]:
    """Duplicates of all three kinds, and different answers to one question (about every trace that gives one)."""
    findings: list[TraceFinding] = []
    groups: dict[tuple[object, ...], list[tuple[int, Trace]]] = {}
    # earlier turns belong to a question: "And then?" is another one in another conversation
    spelled = [[word for said in (*(f"{role} {said}" for role, said in trace.history), trace.prompt)
                for word in words(said)] for _, trace in traces]
    for (position, trace), text in zip(traces, spelled, strict=True):
        # The number of turns belongs to the key, because words alone do not say where one turn ends.
        groups.setdefault((len(trace.history), *text), []).append((position, trace))
    for members in groups.values():
        findings += _about_group(members) if len(members) > 1 else []
    # Only the first of each group is compared further: the others are named already.
    alone = {members[0][0] for members in groups.values()}
    first = [index for index, (position, _) in enumerate(traces) if position in alone]
    for later, before, similarity in near_duplicates([spelled[index] for index in first]):
        position, trace = traces[first[later]]
        other = traces[first[before]][1]
        findings.append(TraceFinding(kind="near_duplicate", record=position, id=trace.id,
                                     text=f"{similarity:.2f} like {other.id}: {excerpt(other.prompt)}"))
    return findings


def _about_group(members: Sequence[tuple[int, Trace]]) -> list[TraceFinding]:
    # By value, so 5 and 5.0 are one answer. Which of several is right nobody can tell here: all of them are named.
    answers = {_value(trace.answer) for _, trace in members}
    if len(answers) > 1:
        told = shown([f"{trace.id} says {trace.answer}" for _, trace in members])
        return [TraceFinding(kind="conflict", record=position, id=trace.id, text=f"{excerpt(trace.prompt)}: {told}")
                for position, trace in members]
    findings, (_, kept) = [], members[0]
    prompts: set[str] = {kept.prompt}
    for position, trace in members[1:]:
        kind = "duplicate" if trace.prompt in prompts else "normalized_duplicate"
        prompts.add(trace.prompt)
        findings.append(TraceFinding(kind=kind, record=position, id=trace.id,
                                     text=f"like {kept.id}: {excerpt(trace.prompt)}"))
    return findings
