"""Results in words: the same sentence in the terminal, in JSON and in reports."""

from collections.abc import Sequence

from workings.evaluation.paired import PairedDifference
from workings.evaluation.scorecard import Cell
from workings.evaluation.statistics.interval import Interval


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
            f"the difference is {_difference_text(difference)}: {verdict}.")


def not_comparable_sentence(name_a: str, name_b: str, reasons: Sequence[str]) -> str:
    """Why two scorecards say nothing about each other."""
    return f"{name_a} and {name_b} are not comparable: {'; '.join(reasons)}."


def _difference_text(difference: PairedDifference) -> str:
    text = f"{points(difference.delta)} points"
    if isinstance(difference.interval, Interval):
        text += f" (95 % interval {points(difference.interval.low)} to {points(difference.interval.high)}"
        return f"{text}, {p_text(difference.p_value)})" if difference.p_value is not None else f"{text})"
    return f"{text} (no interval: {difference.interval})"
