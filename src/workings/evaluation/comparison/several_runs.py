"""Several runs on the same items: two recipes with several seeds each, or a table of runs with the best one.

A comparison of seeds has a claim for these runs and one for the method. A best run is named only if it is better than
every other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from workings.errors import RequestError
from workings.evaluation.comparison.compare import Comparison, compare_records
from workings.evaluation.comparison.no_verdict import MeasuredSide, measured_side, noise_of, pooled
from workings.evaluation.comparison.paired import (
    PairedDifference,
    compare_configs,
    difference_text,
    equivalence_json,
    equivalence_text,
    paired_values,
    values_equivalence,
)
from workings.evaluation.scorecard import cell_text
from workings.evaluation.statistics import (
    CONFIDENCE,
    Equivalence,
    Interval,
    bounds,
    holm,
    welch_equivalence,
    welch_mean,
)
from workings.evaluation.unit import EvaluationRecord, find_unit
from workings.record.number_text import percent
from workings.record.reader import RunRecord
from workings.record.seal import root_digest

MIN_SEEDS = 3
"""Minimum seeds per side for a claim about the method; with fewer, only these runs are compared."""


@dataclass(frozen=True, kw_only=True)
class SeedSide:
    """The runs of one side."""

    names: list[str]
    accuracies: list[float]

    @property
    def mean(self) -> float:
        """Mean accuracy over the seeds."""
        return fmean(self.accuracies)

    def to_json(self) -> dict[str, Any]:
        """Accuracy over seeds, each seed's, and the standard deviation between seeds (n - 1)."""
        record: dict[str, Any] = {"accuracy": self.mean, "seeds": len(self.names), "runs": self.names,
                                  "accuracies": self.accuracies}
        return record | ({"spread": stdev(self.accuracies)} if len(self.names) > 1 else {})


@dataclass(frozen=True, kw_only=True)
class SeedsComparison:
    """Result of comparing the seeds of B with those of A."""

    verdict: str
    """About these runs; `equivalent` if tested and shown, and neither side is better."""
    a: SeedSide
    b: SeedSide
    difference: PairedDifference
    """Over items, of the means over seeds: a claim about these runs."""
    method_interval: Interval | str
    """Welch's interval of the difference between seeds, a claim about the method; or why there is none."""
    equivalence: Equivalence | str | None = None
    """Equivalence over items within the requested margin, or why it is unknown; None if not requested."""
    method_equivalence: Equivalence | None = None
    """Equivalence between seeds, if there are enough of them."""
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    """Why the completions of a run say little about a model, and why there is no verdict; part of the sentence."""
    refused: bool = False
    """Whether a statistically possible verdict is withheld (`workings.evaluation.comparison.no_verdict`)."""

    @property
    def method_verdict(self) -> str:
        """About the method: only if items and seeds agree; `no claim` with too few seeds."""
        if isinstance(self.method_interval, str):
            return "no claim"
        if self.refused:
            return "inconclusive"
        low, high = self.method_interval.low, self.method_interval.high
        # Items are many and seeds few: items alone would mistake a lucky seed for a better method.
        by_seeds = "better" if low > 0 else "worse" if high < 0 else "inconclusive"
        if by_seeds == self.difference.verdict != "inconclusive":
            return by_seeds
        return "equivalent" if _shown(self.equivalence) and _shown(self.method_equivalence) else "inconclusive"

    @property
    def sentence(self) -> str:
        """Both results in one sentence."""
        gap = self.difference
        method = {"better": "B's method is better", "worse": "B's method is worse",
                  "equivalent": "the methods are equivalent",
                  "inconclusive": "no difference found between the methods",
                  "no claim": f"no claim about the method: {self.method_interval}"}[self.method_verdict]
        text = (f"On the same {gap.n} items {len(self.b.names)} runs of B reach {percent(self.b.mean)} on average "
                f"and {len(self.a.names)} of A {percent(self.a.mean)}, a difference over items of "
                f"{difference_text(gap, gap.p_value)}; these runs: {self.verdict}; {method}.")
        within = [f"Over {units} {equivalence_text(equivalence)}." for units, equivalence in
                  (("items", self.equivalence), ("seeds", self.method_equivalence)) if isinstance(equivalence,
                                                                                                  Equivalence)]
        return " ".join([text, *within, *self.warnings])

    def to_json(self) -> dict[str, Any]:
        """The answer of ``compare --json`` with several seeds, without absent values."""
        record = {"verdict": self.verdict, "method_verdict": self.method_verdict, "sentence": self.sentence,
                  "items": self.difference.n, "a": self.a.to_json(), "b": self.b.to_json(), "notes": self.notes,
                  **self.difference.to_json(), **bounds(self.method_interval, "method_ci")}
        return record | {name: equivalence_json(equivalence) for name, equivalence in (
            ("equivalence", self.equivalence), ("method_equivalence", self.method_equivalence))
            if isinstance(equivalence, Equivalence)}


def _shown(equivalence: Equivalence | str | None) -> bool:
    return isinstance(equivalence, Equivalence) and equivalence.shown


def compare_seeds(a: Sequence[Path], b: Sequence[Path], *, equivalent_within: float | None = None) -> SeedsComparison:
    """Compare several runs per side, pair by pair over items.

    An item's value is its mean score over a side's seeds, so that items are the units. It does not check that runs of
    one side differ only in their seed; the report shows that.

    Args:
        a: the reference runs.
        b: the other ones.
        equivalent_within: margin of equivalence as a share (0.02: two points), tested over items and, with enough
            seeds, between seeds. None: no test.

    Raises:
        RequestError: a side is empty, has a run or a seed twice, or two of the evaluations are not comparable.
    """
    if not a or not b:
        raise RequestError("one side has no runs", "at least one run per side")
    records_a, records_b = [find_unit(path) for path in a], [find_unit(path) for path in b]
    notes = _check_all([*records_a, *records_b])
    _refuse_repeated(records_a)
    _refuse_repeated(records_b)
    # One order, because scores are averaged by position.
    order = [result.id for result in records_a[0].results()]
    side_a, all_a = _side("A", records_a, order)
    side_b, all_b = _side("B", records_b, order)
    values = all_a.scores, all_b.scores, all_a.clusters
    # Variances are not pooled, because methods may vary differently between seeds.
    fewest = min(len(a), len(b))
    method = (f"{fewest} seed{'s' if fewest > 1 else ''} on a side, {MIN_SEEDS} are needed" if fewest < MIN_SEEDS
              else welch_mean(side_a.accuracies, side_b.accuracies).interval)
    equivalence, by_seeds = None, None
    if equivalent_within is not None:
        equivalence = values_equivalence(*values, equivalent_within)
        if isinstance(equivalence, str):
            notes.append(f"equivalence over items is unknown: {equivalence}")
        if isinstance(method, Interval):
            by_seeds = welch_equivalence(side_a.accuracies, side_b.accuracies, equivalent_within)
    difference = paired_values(*values)
    verdict = "equivalent" if difference.verdict == "inconclusive" and _shown(equivalence) else difference.verdict
    refused, remarks = noise_of(all_a, all_b, verdict)
    warnings = [*(record.warning for record in (*records_a, *records_b) if record.warning), *remarks]
    return SeedsComparison(verdict="inconclusive" if refused else verdict, a=side_a, b=side_b, notes=notes,
                           method_interval=method, refused=refused, warnings=warnings, difference=difference,
                           equivalence=equivalence, method_equivalence=by_seeds)


def _side(name: str, records: Sequence[EvaluationRecord], order: Sequence[str]) -> tuple[SeedSide, MeasuredSide]:
    """The runs of one side, each with its items in this order, and what they are together."""
    runs = []
    for record in records:
        by_id = {result.id: result for result in record.results()}
        if by_id.keys() != {*order}:
            raise RequestError(f"{record.path} has other items than the first run", "evaluations of the same items")
        runs.append(measured_side(name, record.answer_counts, [by_id[item_id] for item_id in order]))
    return SeedSide(names=[record.name for record in records],
                    accuracies=[fmean(run.scores) for run in runs]), pooled(name, runs)


def _check_all(records: Sequence[EvaluationRecord]) -> list[str]:
    notes: list[str] = []
    for record in records[1:]:
        different, unknown, _ = compare_configs(records[0].config, record.config)
        if different:
            raise RequestError(f"{records[0].path} does not match {record.path}: {'; '.join(different)}",
                               "evaluations of the same items with the same scorer, template and decoding")
        notes += [note for note in unknown if note not in notes]
    return notes


def _refuse_repeated(side: Sequence[EvaluationRecord]) -> None:
    """Refuse runs that cannot differ: they would make any difference look certain."""
    record_of_key: dict[object, EvaluationRecord] = {}
    for record in side:
        model = record.config["made_from"]
        # Weights that were not trained here have no root digest: use their evaluation's.
        same: dict[object, str] = {model if isinstance(model, str) else root_digest(record.path): "the same run"}
        if record.run is not None:
            manifest = RunRecord.open(record.run).manifest
            # The recipe's digest includes its seed, so equal digests with equal data are the same training.
            same[manifest.config_digest,
                 *sorted(manifest.data_digests.items())] = f"the same recipe with seed {manifest.seed}"
        for key, repetition in same.items():
            if key in record_of_key:
                raise RequestError(f"{record_of_key[key].path} and {record.path}, on one side, are {repetition}",
                                   "runs of one recipe with different seeds", f"workings train RECIPE seed={len(side)}")
            record_of_key[key] = record


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
    comparisons = [compare_records(other, records[0]) for other in records[1:]]
    for comparison in comparisons:
        if comparison.verdict == "not comparable":
            raise RequestError(comparison.sentence, "evaluations of the same items in the same way")
    adjusted = holm([c.difference.p_value if c.difference else None for c in comparisons])
    return Ranking(comparisons=comparisons, p_adjusted=adjusted)
