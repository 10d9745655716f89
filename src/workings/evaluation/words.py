"""Results in words: the same sentence in the terminal, in JSON and in reports."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from workings.evaluation.paired import PairedDifference
from workings.evaluation.scorecard import Cell, Scorecard
from workings.evaluation.statistics.interval import Interval
from workings.record.layout import EVALUATION_SUMMARY

if TYPE_CHECKING:
    from workings.evaluation.compare import Comparison


def percent(share: float, places: int = 1) -> str:
    """``0.994`` as ``99.4 %``."""
    return f"{100 * share:.{places}f} %"


def points(share: float) -> str:
    """A difference of shares in percentage points, with its sign."""
    return f"{100 * share:+.1f}"


def p_text(p: float) -> str:
    """A p value in words: ``p = 0.031``, ``p = 2e-09``, ``p < 1e-300``."""
    if p < 1e-300:
        return "p < 1e-300"
    return f"p = {p:.1e}" if p < 0.001 else f"p = {p:.3f}"


def cell_text(cell: Cell) -> str:
    """An accuracy with its interval."""
    if isinstance(cell.interval, Interval):
        return f"{percent(cell.mean)} (95 % interval {100 * cell.interval.low:.1f} to {100 * cell.interval.high:.1f})"
    return f"{percent(cell.mean)} (no interval: {cell.interval})"


def comparison_sentence(name_a: str, a: Cell, name_b: str, b: Cell, difference: PairedDifference) -> str:
    """What was found, in one sentence with n, both accuracies, the difference and the intervals."""
    verdict = {
        "better": f"{name_b} is better than {name_a}",
        "worse": f"{name_b} is worse than {name_a}",
        "inconclusive": "which of them is better stays open",
    }[difference.verdict]
    return (f"On the same {difference.n} items {name_b} reaches {cell_text(b)} and {name_a} {cell_text(a)}; "
            f"the difference is {_difference_text(difference, difference.p_value)}: {verdict}.")


def not_comparable_sentence(name_a: str, name_b: str, reasons: Sequence[str]) -> str:
    """Why two scorecards say nothing about each other."""
    return f"{name_a} and {name_b} are not comparable: {'; '.join(reasons)}."


def _difference_text(difference: PairedDifference, p_value: float | None) -> str:
    text = f"{points(difference.delta)} points"
    if isinstance(difference.interval, Interval):
        text += f" (95 % interval {points(difference.interval.low)} to {points(difference.interval.high)}"
        return f"{text}, {p_text(p_value)})" if p_value is not None else f"{text})"
    return f"{text} (no interval: {difference.interval})"


def scorecard_text(scorecard: Scorecard, out: Path) -> str:
    """A scorecard for the terminal, and what to type next."""
    lines = [f"{cell_text(scorecard.overall)} on {scorecard.overall.n} items"]
    if scorecard.overall.errors:
        lines.append(f"{scorecard.overall.errors} items could not be scored and count as 0: see "
                     f"{out / EVALUATION_SUMMARY}")
    if len(scorecard.per_section) > 1:
        width = max(map(len, scorecard.per_section))
        lines += [f"  {name:<{width}}  {cell.n:>6} items  {cell_text(cell)}"
                  for name, cell in scorecard.per_section.items()]
    lines.append(f"to compare: workings compare {out} OTHER")
    return "\n".join(lines)


def comparison_text(comparison: "Comparison") -> str:
    """A comparison for the terminal."""
    lines = [comparison.sentence]
    if comparison.difference is not None:
        found = comparison.difference
        lines.append(f"newly right: {found.newly_right}, newly wrong: {found.newly_wrong} items")
        if isinstance(found.mcnemar, float):
            lines.append(f"exact McNemar beside it: {p_text(found.mcnemar)}")
    if len(comparison.sections) > 1:
        lines.append(f"by section ({len(comparison.sections)} looked at, so p values are Holm's):")
        lines += [f"  {section.name}: {_difference_text(section.difference, section.p_adjusted)}"
                  for section in comparison.sections]
    return "\n".join([*lines, *(f"note: {note}" for note in comparison.notes)])
