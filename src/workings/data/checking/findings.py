"""What `workings data check` finds: the kinds of findings, a reader that survives bad lines, and the cleaned file."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.data.importing.sources import Unreadable, open_file
from workings.data.preferences import PreferencePair
from workings.data.row_fields import NUMBERED, import_command, lines_bytes, path_beside, refuse_broken_text, with_id
from workings.data.traces import Trace
from workings.errors import RequestError
from workings.record import atomic

_PROBLEMS = {
    "unreadable": "an invalid line: not a trace or a pair",
    "repeated_id": "an id that an earlier line has already",
    "duplicate": "the question of an earlier trace, whatever its case, white space and punctuation",
    "conflict": "another answer to the same question",
    "empty_step": "a step without text",
    "repeated_step": "the same step twice in a row",
    "wrong_equation": "an equation that does not hold",
    "answer_not_reached": "a number as answer that no step mentions, and steps that end in another result",
    "repeated_pair": "question and both completions of an earlier pair",
    "equal_completions": "chosen and rejected are one text, but for white space",
    "opposite_verdicts": "pairs of one question by which each of two completions is the better one",
    "control_text": "text that would forge a turn, or a tag inside a text",
    "row": "a row that cannot be trained as the recipe asks",
    "leak": "a question of the evaluation set, whatever its case, white space and punctuation",
    "ngram_leak": "a long passage of a question of the evaluation set",
    "contained_leak": "a whole question of the evaluation set within a longer text"}
_NOTES = {
    "length_bias": "most chosen completions are longer, or most are shorter",
    "cut_off": "a completion that is the beginning of the other",
    "answer_in_prompt": "a question that holds the chosen completion and not the rejected one",
    "doubtful_equation": "an equation that does not hold and may be a rounding, a size, or set something up",
    "near_duplicate": "nearly the words and exactly the numbers of an earlier question",
    "another_answer": "another answer to an open question of an earlier trace",
    "no_steps": "no steps: only usable with data.reasoning: answer_only",
    "answer_not_in_steps": "a number as answer that no step mentions",
    "no_id": "no id: numbered by line, so the ids change with the order of the file",
    "no_licence": "no licence"}
KINDS = {kind: (kind in _PROBLEMS, description) for kind, description in (_PROBLEMS | _NOTES).items()}
"""Every kind of finding: whether it matters (exit code 1; `--fix` leaves the line out), and its description."""
ENTIRE_FILE = -1
"""The position of a finding about a whole file."""
Entry = Trace | PreferencePair
TURN_MARKS = re.compile(r"<(?:bos|eos|pad|unk|start_of_turn|end_of_turn|s|/s)>|<\|[a-z_]{2,40}\|>|<\|turn>|<turn\|>")
"""Text that a tokenizer may take for the border of a turn, or for what switches a mode on."""


@dataclass(frozen=True)
class DataFinding:
    """One thing found about one trace or pair, or about all of a file."""

    kind: str
    """A key of `KINDS`."""
    record: int
    """Position in the file, from 0; `ENTIRE_FILE` for the whole file."""
    id: str
    """Id of the trace or pair, the place of an unreadable line, or the file's name."""
    text: str
    """The finding in words, with an excerpt."""

    @property
    def matters(self) -> bool:
        """Whether training on it would do harm."""
        return self.kind in _PROBLEMS

    def to_json(self) -> dict[str, Any]:
        """Keys of a finding in `--json` and in the file of left-out records."""
        return {"kind": self.kind, "matters": self.matters, "id": self.id, "text": self.text}


@dataclass(frozen=True, kw_only=True)
class CheckReport:
    """All findings about a file."""

    records: int
    findings: tuple[DataFinding, ...]

    @property
    def counts(self) -> dict[str, int]:
        """Findings by kind, in the order of `KINDS`; kinds without any are left out."""
        counted = Counter(finding.kind for finding in self.findings)
        return {kind: counted[kind] for kind in KINDS if counted[kind]}

    @property
    def passed(self) -> bool:
        """Whether nothing that matters was found."""
        return not any(finding.matters for finding in self.findings)

    @property
    def left_out(self) -> dict[int, list[DataFinding]]:
        """Records that a cleaned file leaves out: their positions, with the reasons."""
        by_position: dict[int, list[DataFinding]] = {}
        for finding in self.findings:
            if finding.matters:
                by_position.setdefault(finding.record, []).append(finding)
        return by_position

    def to_json(self, most: int = 1000) -> dict[str, Any]:
        """Keys of `--json`: all counts, and the first findings, those that matter before the others."""
        first = sorted(self.findings, key=lambda finding: not finding.matters)[:most]
        return {"records": self.records, "passed": self.passed, "counts": self.counts,
                "findings": [finding.to_json() for finding in first],
                "findings_left_out_here": len(self.findings) - len(first)}


def excerpt(text: str, length: int = 80) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[:length - 1] + "…"


def shown(parts: Sequence[str]) -> str:
    """The first three texts with commas, and how many more there are."""
    more = f", and {len(parts) - 3} more" if len(parts) > 3 else ""
    return ", ".join(excerpt(part, 60) for part in parts[:3]) + more


@dataclass(frozen=True)
class ReadFile:
    """A file of traces or pairs as far as it can be read."""

    entries: Sequence[tuple[int, Entry]]
    """Each readable entry with its position in the file, from 0."""
    findings: list[DataFinding]
    """About the other records, and about missing ids."""
    records: int
    """All records, the unreadable ones included."""
    name: str = ""
    """The file's name."""


def read_tolerantly(path: Path, from_json: Callable[[object], Entry]) -> ReadFile:
    """All entries of a file; an invalid record becomes a finding. Raises `RequestError` if no record can be read."""
    entries: list[tuple[int, Entry]] = []
    findings: list[DataFinding] = []
    positions: dict[str, int] = {}
    records = 0
    for position, record in enumerate(open_file(path).records()):
        records += 1
        place = f"{path.name}:{record.number}"
        try:
            if isinstance(record, Unreadable):
                raise ValueError(record.reason)
            refuse_broken_text(record.value)
            entry = from_json(with_id(record.value, record.number))
        except ValueError as error:
            findings.append(DataFinding("unreadable", position, place, str(error)))
            continue
        if entry.id in positions:
            findings.append(DataFinding("repeated_id", position, entry.id,
                                        f"{place} repeats the id of record {positions[entry.id] + 1}"))
            continue
        positions[entry.id] = position
        entries.append((position, entry))
    if records and not entries:
        others = "; all other lines are invalid too" if records > 1 else ""
        raise RequestError(f"{findings[0].id}: {findings[0].text}{others}", "traces, or preference pairs",
                           import_command(path, "traces.jsonl"))
    if numbered := sum(entry.id.startswith(NUMBERED) for _, entry in entries):
        findings.append(DataFinding("no_id", ENTIRE_FILE, path.name,
                                    f"{numbered:,} records have no `id`; they are numbered by their lines"))
    return ReadFile(entries, findings, records, path.name)


def learned_texts(entry: Entry) -> tuple[str, ...]:
    """The texts of an entry that a model learns from, except the question."""
    return (entry.chosen, entry.rejected) if isinstance(entry, PreferencePair) else (*entry.steps, entry.answer)


def earlier_questions(entry: Entry) -> tuple[str, ...]:
    """The user's earlier texts in a trace, whose answers `data.learn: all` learns; none for a pair."""
    return tuple(turn.text for turn in entry.history if turn.role == "user") if isinstance(entry, Trace) else ()


def write_clean(read: ReadFile, report: CheckReport, path: Path) -> tuple[Path, Path]:
    """Write the entries about which nothing that matters was found, and a list of the others with the reasons.

    Returns the two paths next to the file: `NAME.clean.jsonl` and `NAME.left_out.jsonl`.
    """
    gone = report.left_out
    clean, left_out = path_beside(path, "clean.jsonl"), path_beside(path, "left_out.jsonl")
    atomic.write_bytes(clean, lines_bytes(entry.to_json() for position, entry in read.entries if position not in gone))
    atomic.write_bytes(left_out, lines_bytes({"record": position + 1, "id": findings[0].id,
                                              "reasons": [finding.to_json() for finding in findings]}
                                             for position, findings in sorted(gone.items())))
    return clean, left_out
