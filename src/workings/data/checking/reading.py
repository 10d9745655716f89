"""Shared by the checks of traces and of pairs: a tolerant reader, common findings, and the cleaned file."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from workings.data.checking.findings import ENTIRE_FILE, CheckReport, DataFinding
from workings.data.importing.records import Unreadable
from workings.data.importing.sources import open_file
from workings.data.preferences import PreferencePair
from workings.data.row_fields import NUMBERED, import_command, lines_bytes, path_beside, with_id
from workings.data.traces import Trace
from workings.errors import RequestError
from workings.record import atomic

Entry = Trace | PreferencePair
E = TypeVar("E", bound=Entry)

RowProblems = Callable[[Sequence[E]], Iterator[tuple[str, str]]]
"""Given entries, yields (id, reason) of those that give no row; see `workings.data.rows.row_problems`."""

TURN_MARKS = re.compile(r"<(?:bos|eos|pad|unk|start_of_turn|end_of_turn|s|/s)>|<\|[a-z_]{2,40}\|>|<\|turn>|<turn\|>")
"""Text that a tokenizer may take for the border of a turn, or for what switches a mode on."""


@dataclass(frozen=True)
class Numbered(Generic[E]):
    """The readable records of a file, traces or pairs, with their positions, and findings about the rest."""

    entries: list[tuple[int, E]]
    findings: list[DataFinding]
    records: int


def read_tolerantly(path: Path, from_json: Callable[[object], E]) -> Numbered[E]:
    """All traces or pairs of a file; an invalid line becomes a finding.

    Args:
        path: of the file.
        from_json: `trace_from_json` or `pair_from_json`.

    Raises:
        RequestError: when the file as a whole cannot be read.
    """
    entries: list[tuple[int, E]] = []
    findings: list[DataFinding] = []
    seen: dict[str, int] = {}
    count = 0
    for position, record in enumerate(open_file(path).records()):
        count += 1
        location = f"{path.name}:{record.number}"
        try:
            if isinstance(record, Unreadable):
                raise ValueError(record.reason)
            entry = from_json(with_id(record.value, record.number))
        except ValueError as error:
            findings.append(DataFinding(kind="unreadable", record=position, id=location, text=str(error)))
            continue
        # Findings are by id, so skip a second entry of the same id.
        if entry.id in seen:
            findings.append(DataFinding(kind="repeated_id", record=position, id=entry.id,
                                        text=f"{location} repeats the id of record {seen[entry.id] + 1}"))
            continue
        seen[entry.id] = position
        entries.append((position, entry))
    # One bad line is a finding; a file in which no line is one holds something else.
    if count and all(finding.kind == "unreadable" for finding in findings) and not entries:
        raise RequestError(f"{findings[0].id}: {findings[0].text}; all other lines are invalid too" if count > 1 else
                           f"{findings[0].id}: {findings[0].text}", "traces, or preference pairs",
                           import_command(path, "traces.jsonl"))
    if numbered := sum(entry.id.startswith(NUMBERED) for _, entry in entries):
        findings.append(DataFinding(kind="no_id", record=ENTIRE_FILE, id=path.name,
                                    text=f"{numbered:,} records have no `id`; they are numbered by their lines"))
    return Numbered(entries, findings, count)


def learned_texts(entry: Entry) -> tuple[str, ...]:
    """The texts of an entry that a model learns from, except the question."""
    return (entry.chosen, entry.rejected) if isinstance(entry, PreferencePair) else (*entry.steps, entry.answer)


def earlier_texts(entry: Entry, role: str) -> tuple[str, ...]:
    """Earlier texts of one side of a trace's conversation, which `data.learn: all` learns; none for a pair."""
    return tuple(turn.text for turn in entry.history if turn.role == role) if isinstance(entry, Trace) else ()


def missing_labels(entry: Entry) -> Iterator[tuple[str, str]]:
    """(kind, text) of missing labels and licences."""
    if missing := [name for name in ("section", "category", "difficulty") if not getattr(entry, name)]:
        yield "no_label", ", ".join(missing)
    if not entry.licence:
        yield "no_licence", entry.source or "no source either"


def row_findings(read: Numbered[E], row_problems: RowProblems[E] | None) -> Iterator[DataFinding]:
    """Findings of a recipe about the rows; none without a recipe."""
    if row_problems is None:
        return
    positions = {entry.id: position for position, entry in read.entries}
    for name, text in row_problems([entry for _, entry in read.entries]):
        yield DataFinding(kind="row", record=positions[name], id=name, text=text)


def report_of(read: Numbered[E], findings: Sequence[DataFinding]) -> CheckReport:
    """The report: findings and unreadable lines, in the file's order."""
    # A stable sort: findings about one record stay in the order of the checks.
    return CheckReport(records=read.records,
                       findings=tuple(sorted([*read.findings, *findings], key=lambda finding: finding.record)))


def write_clean(read: Numbered[E], report: CheckReport, path: Path) -> tuple[Path, Path]:
    """Write the entries about which nothing that matters was found, and a list of what went, with reasons.

    Returns the two paths: `NAME.clean.jsonl` and `NAME.left_out.jsonl` next to the file.
    """
    gone = report.left_out
    clean, left_out = path_beside(path, "clean.jsonl"), path_beside(path, "left_out.jsonl")
    # The positions are those of the file, bad lines included, so an unreadable line shifts nothing.
    atomic.write_bytes(clean, lines_bytes(entry.to_json() for position, entry in read.entries if position not in gone))
    atomic.write_bytes(left_out, lines_bytes({"record": position + 1, "id": findings[0].id,
                                              "reasons": [finding.to_json() for finding in findings]}
                                             for position, findings in sorted(gone.items())))
    return clean, left_out
