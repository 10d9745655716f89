"""Compare several runs on the same items: two methods with several seeds each, or any runs in a table.

A comparison of seeds makes two claims: about these runs, and about the methods. A table names a best run only if that
is better than every other run.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from workings.errors import RequestError
from workings.evaluation.comparison import paired
from workings.evaluation.comparison.compare import ComparedSide, compare_records
from workings.evaluation.comparison.no_verdict import measured_side, noise_of, pooled
from workings.evaluation.comparison.paired import PairedDifference
from workings.evaluation.scorecard import cell_text
from workings.evaluation.statistics import CONFIDENCE, Interval, bounds, holm, welch_mean
from workings.evaluation.unit import EvaluationRecord, find_unit
from workings.record.number_text import percent
from workings.record.reader import RunRecord

MIN_SEEDS = 3
"""Minimum seeds per side for a claim about the method; with fewer, only these runs are compared."""
_CLAIMS = {"better": "B's method is better", "worse": "B's method is worse",
           "inconclusive": "no difference found between the methods"}


def compare_seeds(a: Sequence[Path], b: Sequence[Path]) -> dict[str, Any]:
    """Compare the runs of method A with those of method B: the result of ``compare --json`` with several seeds.

    ``verdict`` is about these runs: an item's value is its mean score over a side's runs. ``method_verdict`` is about
    the methods: that verdict if a test over seeds agrees, else `inconclusive`; `no claim` with too few seeds. Whether
    the runs of a side differ only in their seed is not checked. Raises `RequestError` if a side has a run or a seed
    twice, or two evaluations are not comparable.
    """
    records_a, records_b = [find_unit(path) for path in a], [find_unit(path) for path in b]
    notes = check_comparable([*records_a, *records_b])
    _refuse_repeated(records_a)
    _refuse_repeated(records_b)
    order = [result.id for result in records_a[0].results()]
    runs_a = [measured_side("A", record.answer_counts, record.results_of(order)) for record in records_a]
    runs_b = [measured_side("B", record.answer_counts, record.results_of(order)) for record in records_b]
    side_a, side_b = pooled("A", runs_a), pooled("B", runs_b)
    accuracies_a, accuracies_b = ([fmean(run.scores) for run in runs] for runs in (runs_a, runs_b))
    difference = paired.paired_values(side_a.scores, side_b.scores, side_a.clusters)
    refused, remarks = noise_of(side_a, side_b, difference.verdict)
    verdict = "inconclusive" if refused else difference.verdict
    fewest = min(len(a), len(b))
    if fewest < MIN_SEEDS:
        over_seeds: Interval | str = f"{fewest} seed{'s' if fewest > 1 else ''} on a side, {MIN_SEEDS} are needed"
        method_verdict, claim = "no claim", f"no claim about the method: {over_seeds}"
    else:
        over_seeds = welch_mean(accuracies_a, accuracies_b).interval
        agrees = (verdict == "better" and over_seeds.low > 0) or (verdict == "worse" and over_seeds.high < 0)
        # Items are many and seeds few: items alone would mistake a lucky seed for a better method.
        method_verdict = verdict if agrees else "inconclusive"
        claim = _CLAIMS[method_verdict]
    sentence = " ".join([
        f"On the same {difference.n} items {len(runs_b)} runs of B reach {percent(fmean(accuracies_b))} on average and "
        f"{len(runs_a)} of A {percent(fmean(accuracies_a))}, a difference over items of "
        f"{paired.difference_text(difference, difference.p_value)}; these runs: {verdict}; {claim}.",
        *filter(None, (record.warning for record in (*records_a, *records_b))), *remarks])
    return {"verdict": verdict, "method_verdict": method_verdict, "sentence": sentence, "items": difference.n,
            "a": _side_json(records_a, accuracies_a), "b": _side_json(records_b, accuracies_b), "notes": notes,
            **difference.to_json(), **bounds(over_seeds, "method_ci")}


def _side_json(records: Sequence[EvaluationRecord], accuracies: list[float]) -> dict[str, Any]:
    """Accuracy over seeds, each seed's, and the standard deviation between seeds (n - 1)."""
    return {"accuracy": fmean(accuracies), "seeds": len(records), "runs": [record.name for record in records],
            "accuracies": accuracies} | ({"spread": stdev(accuracies)} if len(accuracies) > 1 else {})


def check_comparable(records: Sequence[EvaluationRecord]) -> list[str]:
    """Settings that are not recorded, in words. Raises `RequestError` for an evaluation unlike the first."""
    notes: list[str] = []
    for record in records[1:]:
        settings = paired.compare_configs(records[0].config, record.config)
        if settings.different:
            raise RequestError(f"{records[0].path} does not match {record.path}: {'; '.join(settings.different)}",
                               "evaluations of the same items with the same scorer, template and decoding")
        notes += [note for note in settings.unknown if note not in notes]
    return notes


def _refuse_repeated(side: Sequence[EvaluationRecord]) -> None:
    """Raise `RequestError` if two runs of a side are the same training, which would make differences look certain."""
    record_of_key: dict[object, EvaluationRecord] = {}
    for record in side:
        model = record.config["made_from"]
        # Weights that were not trained here have no root digest: use their evaluation's.
        repetitions: dict[object, str] = {model if isinstance(model, str) else record.root: "the same run"}
        if record.run is not None:
            manifest = RunRecord.open(record.run).manifest
            # The recipe's digest includes its seed, so equal digests with equal data are the same training.
            training = (manifest.config_digest, *sorted(manifest.data_digests.items()))
            repetitions[training] = f"the same recipe with seed {manifest.seed}"
        for key, repetition in repetitions.items():
            if key in record_of_key:
                raise RequestError(f"{record_of_key[key].path} and {record.path}, on one side, are {repetition}",
                                   "runs of one recipe with different seeds", f"workings train RECIPE seed={len(side)}")
            record_of_key[key] = record


def ranking_text(ranking: Mapping[str, Any]) -> str:
    """The result of `rank` as text for the terminal."""
    lines = []
    for row in ranking["runs"]:
        interval = f"{100 * row['ci_low']:.1f} to {100 * row['ci_high']:.1f}" if "ci_low" in row else "no interval"
        lead = f"  leader is {paired.points(row['delta'])} points ahead" if "delta" in row else ""
        lines.append(f"{percent(row['accuracy']):>8}  ({interval})  {row['name']}{lead}")
    return "\n".join([*lines, ranking["sentence"]])


def rank(paths: Sequence[Path]) -> dict[str, Any]:
    """Compare the best of at least two runs with each of the others: the result of ``compare --json`` for them.

    ``runs`` has the accuracies and the leader's advantage, with p values by Holm's method. ``best`` is the leader's
    name, if it is better than all others by these. Raises `RequestError` if two are not comparable.
    """
    records = [find_unit(path) for path in paths]
    records.sort(key=lambda record: -float(record.summary["scorecard"]["overall"]["mean"]))
    comparisons = [compare_records(other, records[0]) for other in records[1:]]
    others: list[tuple[ComparedSide, PairedDifference]] = []
    for comparison in comparisons:
        if comparison.a is None or comparison.b is None or comparison.difference is None:
            raise RequestError(comparison.sentence, "evaluations of the same items in the same way")
        leader = comparison.b  # the same run in every comparison
        others.append((comparison.a, comparison.difference))
    adjusted = holm([difference.p_value for _, difference in others])
    is_best = all(comparison.verdict == "better" and p is not None and p < 1 - CONFIDENCE
                  for comparison, p in zip(comparisons, adjusted, strict=True))
    rows = [leader.to_json()]
    for (side, difference), p in zip(others, adjusted, strict=True):
        rows.append(side.to_json() | {"delta": difference.delta, **bounds(difference.interval, "delta_ci")})
        if p is not None:
            rows[-1]["p_value_holm"] = p
    ahead = f"better than each of the other {len(others)} runs"
    text = f"{leader.name} reaches {cell_text(leader.cell)} and is {ahead} (Holm's adjustment)." if is_best else (
        f"{leader.name} reaches the most, {cell_text(leader.cell)}, but is not shown to be {ahead}; no best run is "
        "named.")
    warnings = dict.fromkeys(warning for comparison in comparisons for warning in comparison.warnings)
    return {"runs": rows, "items": leader.cell.n, "sentence": " ".join([text, *warnings]),
            **({"best": leader.name} if is_best else {})}
