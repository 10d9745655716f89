"""Several runs on the same items: a table, and a best run only if it is better than every other."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workings.errors import RequestError
from workings.evaluation.comparison.compare import Comparison, compare_records
from workings.evaluation.scorecard import cell_text
from workings.evaluation.statistics.differences import holm
from workings.evaluation.statistics.intervals import CONFIDENCE
from workings.evaluation.unit import find_unit
from workings.record.number_text import percent


@dataclass(frozen=True, kw_only=True)
class Ranking:
    """Runs by accuracy, the first compared with each of the others."""

    comparisons: list[Comparison]
    """The leading run (as B) against each other one (as A), in the order of accuracy."""
    p_adjusted: list[float | None]
    """Holm's p value of each."""

    @property
    def best(self) -> str:
        """Name of the run that is better than all others after Holm's adjustment, or ""."""
        # Both, because a single verdict ignores the other comparisons.
        sure = all(c.verdict == "better" and p is not None and p < 1 - CONFIDENCE
                   for c, p in zip(self.comparisons, self.p_adjusted, strict=True))
        return self.comparisons[0].name_b if sure else ""

    def rows(self) -> list[dict[str, Any]]:
        """The table: accuracies, and the leader's advantage."""
        leader = self.comparisons[0].b
        rows = [leader.to_json()] if leader is not None else []
        for comparison, p in zip(self.comparisons, self.p_adjusted, strict=True):
            if comparison.a is not None and comparison.difference is not None:
                behind = {key: value for key, value in comparison.difference.to_json().items()
                          if key in ("delta", "delta_ci_low", "delta_ci_high")}
                rows.append(comparison.a.to_json() | behind | ({"p_value_holm": p} if p is not None else {}))
        return rows

    def to_json(self) -> dict[str, Any]:
        """The answer of ``compare --json`` for more than two runs."""
        record = {"runs": self.rows(), "items": self.comparisons[0].to_json()["items"], "sentence": self.sentence}
        return {**record, "best": self.best} if self.best else record

    @property
    def sentence(self) -> str:
        """The ranking as a sentence."""
        leader = self.comparisons[0]
        name, count = leader.name_b, len(self.comparisons)
        cell = cell_text(leader.b.cell) if leader.b is not None else ""
        text = (f"{name} reaches {cell} and is better than each of the other {count} runs (Holm's adjustment)."
                if self.best else
                f"{name} reaches the most, {cell}, but is not shown to be better than each of the other {count} runs; "
                "no best run is named.")
        # Each comparison has the leader's.
        warnings = dict.fromkeys(warning for comparison in self.comparisons for warning in comparison.warnings)
        return " ".join([text, *warnings])

    def text(self) -> str:
        """The table for the terminal."""
        lines = []
        for row in self.rows():
            interval = f"{100 * row['ci_low']:.1f} to {100 * row['ci_high']:.1f}" if "ci_low" in row else "no interval"
            lead = f"  leader is {100 * row['delta']:+.1f} points ahead" if "delta" in row else ""
            lines.append(f"{percent(row['accuracy']):>8}  ({interval})  {row['name']}{lead}")
        return "\n".join([*lines, self.sentence])


def rank(paths: Sequence[Path]) -> Ranking:
    """Rank at least two runs that are comparable.

    Raises:
        RequestError: fewer than two, or two that are not comparable.
    """
    if len(paths) < 2:
        raise RequestError(f"a ranking needs at least two runs, not {len(paths)}", "more runs")
    records = [find_unit(path) for path in paths]
    # By the summaries, without reading predictions.
    records.sort(key=lambda record: -float(record.summary["scorecard"]["overall"]["mean"]))
    # Compare only the leader: more tests would cost power.
    comparisons = [compare_records(other, records[0]) for other in records[1:]]
    for comparison in comparisons:
        if comparison.verdict == "not comparable":
            raise RequestError(comparison.sentence, "evaluations of the same items in the same way")
    adjusted = holm([c.difference.p_value if c.difference else None for c in comparisons])
    return Ranking(comparisons=comparisons, p_adjusted=adjusted)
