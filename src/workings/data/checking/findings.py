"""Kinds of findings, and which of them matter."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

KINDS: dict[str, tuple[bool, str]] = {
    "unreadable": (True, "an invalid line: not a trace or a pair"),
    "repeated_id": (True, "an id that an earlier line has already"),
    "duplicate": (True, "the question of an earlier trace, letter by letter"),
    "normalized_duplicate": (True, "the question of an earlier trace but for case, white space and punctuation"),
    "conflict": (True, "another answer to the same question"),
    "empty_step": (True, "a step without text"),
    "repeated_step": (True, "the same step twice in a row"),
    "wrong_equation": (True, "an equation that does not hold"),
    "answer_not_reached": (True, "a number as answer that no step mentions, and steps that end in another result"),
    "repeated_pair": (True, "question and both completions of an earlier pair"),
    "equal_completions": (True, "chosen and rejected are one text"),
    "white_space_only": (True, "chosen and rejected differ in white space only"),
    "opposite_verdicts": (True, "pairs of one question by which a completion is better than itself"),
    "control_text": (True, "text that would forge a turn, or a tag inside a text"),
    "row": (True, "a row that cannot be trained as the recipe asks"),
    "leak": (True, "a question of the evaluation set, letter by letter"),
    "normalized_leak": (True, "a question of the evaluation set but for case, white space and punctuation"),
    "ngram_leak": (True, "a long passage of a question of the evaluation set"),
    "contained_leak": (True, "a whole question of the evaluation set within a longer text"),
    "length_bias": (False, "most chosen completions are longer, or most are shorter"),
    "cut_off": (False, "a completion that is the beginning of the other"),
    "answer_in_prompt": (False, "a question that holds the chosen completion and not the rejected one"),
    "doubtful_equation": (False, "an equation that does not hold and may be a rounding, a size, or set something up"),
    "near_duplicate": (False, "nearly the words and exactly the numbers of an earlier question"),
    "another_answer": (False, "another answer to an open question of an earlier trace"),
    "no_steps": (False, "no steps: only usable with data.reasoning: answer_only"),
    "answer_not_in_steps": (False, "a number as answer that no step mentions"),
    "no_id": (False, "no id: numbered by line, so the ids change with the order of the file"),
    "no_label": (False, "no section, category or difficulty"),
    "no_licence": (False, "no licence"),
}
"""Every kind of finding: whether it matters (exit code 1, `--fix` leaves the line out), and its description."""
ENTIRE_FILE = -1
"""The position of a finding about a whole file."""


@dataclass(frozen=True, kw_only=True)
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
        return KINDS[self.kind][0]

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
            # What matters is about one record each, so `ENTIRE_FILE` is never a key here.
            if finding.matters:
                by_position.setdefault(finding.record, []).append(finding)
        return by_position

    def to_json(self, most: int = 1000) -> dict[str, Any]:
        """Keys of `--json`: all counts, and the first findings, those that matter first."""
        # A stable sort: on either side of the line findings stay in the order in which they were found.
        first = sorted(self.findings, key=lambda finding: not finding.matters)[:most]
        return {"records": self.records, "passed": self.passed, "counts": self.counts,
                "findings": [finding.to_json() for finding in first],
                "findings_left_out_here": len(self.findings) - len(first)}


def excerpt(text: str, length: int = 80) -> str:
    """The beginning of a text on one line."""
    flat = " ".join(text.split())
    return flat if len(flat) <= length else flat[:length - 1] + "…"


def shown(parts: Sequence[str], most: int = 3) -> str:
    """A few texts with commas."""
    more = f", and {len(parts) - most} more" if len(parts) > most else ""
    return ", ".join(excerpt(part, 60) for part in parts[:most]) + more
