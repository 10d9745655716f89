"""Is B better than A, or is that noise? Two evaluations of the same items compared: `compare("runs/a", "runs/b")`."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from workings.evaluation.answer_counts import AnswerCounts
from workings.evaluation.comparison import paired
from workings.evaluation.comparison.no_verdict import measured_side, noise_of
from workings.evaluation.comparison.paired import PairedDifference, Pairs
from workings.evaluation.comparison.pass_at_k import PassAtK, pass_table
from workings.evaluation.scorecard import Cell, ItemResult, cell, cell_text
from workings.evaluation.statistics import Equivalence, bounds, holm
from workings.evaluation.unit import EvaluationRecord, find_pair
from workings.record.number_text import p_text, table_lines
from workings.scoring.model_judge import judge_text

MAX_IDS_SHOWN = 50
TABLE_HEADS = ("Section", "Wrong to correct", "Correct to wrong", "Both right", "Both wrong", "Items")
"""Heads of the table of flips."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flips:
    """Items of one section by their results in A and B. Correct means a score of exactly 1."""

    section: str
    wrong_to_right: int
    right_to_wrong: int
    both_right: int
    both_wrong: int
    items: int

    def row(self) -> tuple[str, ...]:
        """The cells below `TABLE_HEADS`."""
        return tuple(map(str, asdict(self).values()))


@dataclass(frozen=True, kw_only=True)
class ComparedSide:
    """One of the two scorecards."""

    name: str
    path: str
    cell: Cell
    counts: AnswerCounts

    def to_json(self) -> dict[str, Any]:
        """Accuracy with its interval; absent bounds are left out."""
        return {"name": self.name, "path": self.path, "accuracy": self.cell.mean, "errors": self.cell.errors,
                **bounds(self.cell.interval, "ci")}


@dataclass(frozen=True, kw_only=True)
class SectionDelta:
    """The difference within one section of the items."""

    name: str
    a: Cell
    b: Cell
    difference: PairedDifference
    p_adjusted: float | None
    """p value adjusted for the number of sections by Holm's method; None without an interval."""

    def to_json(self) -> dict[str, Any]:
        """Accuracies, difference, interval and both p values, as far as they exist."""
        record = {"section": self.name, "items": self.a.n, "a_accuracy": self.a.mean, "b_accuracy": self.b.mean,
                  **self.difference.to_json()}
        return record if self.p_adjusted is None else {**record, "p_value_holm": self.p_adjusted}


@dataclass(frozen=True, kw_only=True, repr=False)
class Comparison:
    """Result of comparing B with A."""

    verdict: str
    """B relative to A: `better`, `worse`, `equivalent` (only if tested), `inconclusive` or `not comparable`."""
    sentence: str
    name_a: str
    name_b: str
    reasons: list[str] = field(default_factory=list)
    """Why the two are not comparable."""
    finding: str = ""
    """The sentence without its warnings."""
    notes: list[str] = field(default_factory=list)
    """Limits of the claim."""
    equal: list[str] = field(default_factory=list)
    """Settings that are equal on both sides."""
    a: ComparedSide | None = None
    b: ComparedSide | None = None
    difference: PairedDifference | None = None
    sections: list[SectionDelta] = field(default_factory=list)
    newly_right: list[str] = field(default_factory=list)
    newly_wrong: list[str] = field(default_factory=list)
    flips: list[Flips] = field(default_factory=list)
    """Flips of all items and of each section."""
    pass_at_k: list[PassAtK] = field(default_factory=list)
    """Values of pass@k; empty with one sample per item."""
    warnings: list[str] = field(default_factory=list)
    """Warnings about the completions of a side, and why a verdict is withheld; they are part of the sentence."""
    refused: bool = False
    """Whether the verdict is `inconclusive` because of `workings.evaluation.comparison.no_verdict`."""
    equivalence: Equivalence | str | None = None
    """The test of equivalence, or why it is impossible; None if it was not requested."""

    def __repr__(self) -> str:
        return f"<Comparison: {self.sentence}>"

    def to_json(self) -> dict[str, Any]:
        """The result of ``compare --json``; values that do not exist are left out."""
        record: dict[str, Any] = {"verdict": self.verdict, "sentence": self.sentence, "notes": self.notes}
        if self.a is None or self.b is None or self.difference is None:
            return {**record, "reasons": self.reasons}
        record |= {"items": self.a.cell.n, "a": self.a.to_json(), "b": self.b.to_json(), **self.difference.to_json(),
                   "equal": self.equal, "sections": [section.to_json() for section in self.sections],
                   "newly_right_ids": self.newly_right[:MAX_IDS_SHOWN],
                   "newly_wrong_ids": self.newly_wrong[:MAX_IDS_SHOWN],
                   "flips": [asdict(flip) for flip in self.flips],
                   "answers": {"a": asdict(self.a.counts), "b": asdict(self.b.counts)}, "refused": self.refused}
        if self.warnings:
            record["warnings"] = self.warnings
        if self.pass_at_k:
            record["pass_at_k"] = [rate.to_json() for rate in self.pass_at_k]
        if isinstance(self.equivalence, Equivalence):
            record["equivalence"] = self.equivalence.to_json()
        return record


def compare(a: str | Path, b: str | Path, *, equivalent_within: float | None = None) -> Comparison:
    """Compare two evaluations item by item; ``a``, the reference, and ``b`` are run directories or evaluation units.

    ``equivalent_within`` is the margin of a test of equivalence, as a share (0.02: two points); None: no test. Raises
    `RequestError` if a path has no evaluation or an ambiguous choice, and `RecordError` if a sealed file was changed.
    """
    return compare_records(*find_pair(Path(a), Path(b)), equivalent_within=equivalent_within)


def compare_records(a: EvaluationRecord, b: EvaluationRecord, *, equivalent_within: float | None = None) -> Comparison:
    """Compare two evaluation units; see `compare`."""
    # Runs in two folders may have the same name.
    name_a, name_b = (a.name, b.name) if a.name != b.name else (f"{a.name} (A)", f"{b.name} (B)")
    different, unknown, equal = paired.compare_configs(a.config, b.config)
    if different:
        return Comparison(verdict="not comparable", name_a=name_a, name_b=name_b, reasons=different, notes=unknown,
                          sentence=f"{name_a} and {name_b} are not comparable: {'; '.join(different)}.")
    results_a = a.results()
    results_b = b.results_of([result.id for result in results_a])
    pairs = [*zip(results_a, results_b, strict=True)]
    measured_a = measured_side(name_a, a.answer_counts, results_a)
    measured_b = measured_side(name_b, b.answer_counts, results_b)
    scores_a, scores_b, clusters = measured_a.scores, measured_b.scores, measured_a.clusters
    difference = paired.paired_values(scores_a, scores_b, clusters)
    equivalence = None
    if equivalent_within is not None:
        equivalence = paired.values_equivalence(scores_a, scores_b, clusters, equivalent_within)
    verdict = difference.verdict
    # A significant difference stays `better` or `worse` even within the margin of equivalence.
    if verdict == "inconclusive" and isinstance(equivalence, Equivalence) and equivalence.shown:
        verdict = "equivalent"
    refused, remarks = noise_of(measured_a, measured_b, verdict)
    warnings = [*filter(None, (a.warning, b.warning)), *remarks]
    side_a = ComparedSide(name=name_a, path=str(a.path), cell=cell(results_a), counts=a.answer_counts)
    side_b = ComparedSide(name=name_b, path=str(b.path), cell=cell(results_b), counts=b.answer_counts)
    finding = _finding(side_a, side_b, difference, "refused" if refused else verdict, equivalence)
    sections: dict[str, list[tuple[ItemResult, ItemResult]]] = {}
    for in_a, in_b in sorted(pairs, key=lambda pair: pair[0].section):
        sections.setdefault(in_a.section, []).append((in_a, in_b))
    flips = [_flips("overall", pairs)]
    if len(sections) > 1:
        flips += [_flips(section, group) for section, group in sections.items()]
    return Comparison(
        verdict="inconclusive" if refused else verdict, warnings=warnings, refused=refused, finding=finding,
        sentence=" ".join([finding, *warnings]), equal=equal, name_a=name_a, name_b=name_b,
        notes=[*unknown, *_notes((a.config, b.config), side_a, side_b, difference, equivalence)],
        a=side_a, b=side_b, difference=difference, equivalence=equivalence, sections=_sections(sections), flips=flips,
        newly_right=[in_a.id for in_a, in_b in pairs if in_a.score < in_b.score],
        newly_wrong=[in_a.id for in_a, in_b in pairs if in_a.score > in_b.score],
        pass_at_k=pass_table(a, b, [(result.id, result.cluster) for result in results_a]))


def _finding(a: ComparedSide, b: ComparedSide, difference: PairedDifference, verdict: str,
             equivalence: Equivalence | str | None) -> str:
    """The verdict in one sentence: accuracies, number of items, difference, smallest detectable difference."""
    opening = {"better": f"{b.name} is better than {a.name}", "worse": f"{b.name} is worse than {a.name}",
               "equivalent": f"{b.name} and {a.name} are equivalent",
               "inconclusive": f"No difference found between {b.name} and {a.name}",
               "refused": f"No verdict on {b.name} against {a.name}"}[verdict]
    parts = [f"{opening}: {cell_text(b.cell)} against {cell_text(a.cell)} on the same {difference.n} items, "
             f"{paired.difference_text(difference, difference.p_value)}"]
    if isinstance(equivalence, Equivalence):
        parts.append(equivalence.text())
    if difference.smallest_shown is not None:
        parts.append(f"{difference.n} items can show differences of {100 * difference.smallest_shown:.1f} points or "
                     "more")
    return "; ".join(parts) + "."


def comparison_text(comparison: Comparison) -> str:
    """The comparison as text for the terminal."""
    lines = [comparison.sentence]
    if comparison.difference is not None:
        heads = [head.lower() for head in TABLE_HEADS]
        lines += ["items by what changed from A to B:",
                  *(f"  {line}" for line in table_lines([heads, *map(Flips.row, comparison.flips)]))]
        if isinstance(comparison.difference.mcnemar, float):
            lines.append(f"exact McNemar next to it: {p_text(comparison.difference.mcnemar)}")
    if len(comparison.sections) > 1:
        lines.append(f"by section ({len(comparison.sections)} sections, p values adjusted by Holm's method):")
        lines += [f"  {section.name}: {paired.difference_text(section.difference, section.p_adjusted)}"
                  for section in comparison.sections]
    if comparison.pass_at_k:
        lines.append("any of k samples correct (pass@k):")
        lines += [f"  k = {k}: {a} and {b}, {difference}"
                  for k, a, b, difference in map(PassAtK.row, comparison.pass_at_k)]
    return "\n".join([*lines, *(f"note: {note}" for note in comparison.notes)])


def _sections(groups: Mapping[str, Pairs]) -> list[SectionDelta]:
    differences = [paired.paired_difference(group) for group in groups.values()]
    # One of twenty equal sections shows a difference by chance.
    adjusted = holm([difference.p_value for difference in differences])
    return [SectionDelta(name=name, a=cell([in_a for in_a, _ in group]), b=cell([in_b for _, in_b in group]),
                         difference=difference, p_adjusted=p)
            for (name, group), difference, p in zip(groups.items(), differences, adjusted, strict=True)]


def _flips(section: str, pairs: Pairs) -> Flips:
    changes = [(in_a.score == 1.0, in_b.score == 1.0) for in_a, in_b in pairs]
    return Flips(section=section, both_right=changes.count((True, True)), both_wrong=changes.count((False, False)),
                 wrong_to_right=changes.count((False, True)), right_to_wrong=changes.count((True, False)),
                 items=len(changes))


def _notes(configs: tuple[dict[str, Any], dict[str, Any]], a: ComparedSide, b: ComparedSide,
           difference: PairedDifference, equivalence: Equivalence | str | None) -> list[str]:
    judge = judge_text(configs[0])  # comparable evaluations have the same judge
    notes = [judge] if judge else []
    versions = paired.steps_versions(configs)
    if versions:
        notes.append(f"{versions}, so their step validity is not comparable")
    notes += [f"{side.cell.errors} items of {side.name} could not be scored and count as 0"
              for side in (a, b) if side.cell.errors]
    if isinstance(difference.interval, str):
        notes.append(f"no interval: {difference.interval}")
    if isinstance(equivalence, str):
        notes.append(f"equivalence is unknown: {equivalence}")
    return notes
