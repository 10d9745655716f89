"""A comparison with several seeds per side as one HTML file: all runs, differences over items and seeds."""

import shlex
from collections.abc import Sequence
from pathlib import Path

from workings.evaluation.comparison.paired import points
from workings.evaluation.comparison.seeds import MIN_SEEDS, SeedsComparison
from workings.evaluation.statistics.equivalence import Equivalence
from workings.evaluation.unit import find_unit
from workings.record import atomic
from workings.record.number_text import p_shown, percent, small_p
from workings.reports.figures import Drawn, Table, bounds, interval_figure, interval_mark, interval_of
from workings.reports.html import render_page
from workings.reports.interval_chart import IntervalRow

METHOD = (
    "An item's value is its mean score over the seeds of a side. The interval over items is Tango's for scores of 0 "
    "and 1 and a t interval otherwise (cluster-robust where items share a cluster); the one over seeds is Welch's. "
    "There is a claim about the method only if both agree. Equivalence within a margin is shown by two one-sided "
    "tests at 5 %, with the same methods.")
_WORDS = {"better": "B's method is better", "worse": "B's method is worse", "inconclusive": "no difference found "
          "between the methods",
          "equivalent": "the methods are equivalent"}


def write_seeds_page(out: Path, a: Sequence[Path], b: Sequence[Path], comparison: SeedsComparison) -> Path:
    """Write one page about the runs of two sides.

    Args:
        out: the HTML file; replaced if it exists.
        a: runs or evaluations of side A, in the order that was compared.
        b: those of side B.
        comparison: result of `workings.evaluation.comparison.seeds.compare_seeds` on them.
    """
    runs, items = len(comparison.a.names) + len(comparison.b.names), comparison.difference.n
    verdict = f"these runs: {comparison.verdict}; {_WORDS.get(comparison.method_verdict, 'no claim about the method')}"
    # `--with-a=PATH` in one word, because a path may begin with a dash.
    command = ["workings", "compare", str(a[0]), str(b[0]), *(f"--with-a={path}" for path in a[1:]),
               *(f"--with-b={path}" for path in b[1:])]
    if isinstance(comparison.equivalence, Equivalence):
        command.append(f"--equivalent-within={100 * comparison.equivalence.margin:g}")
    tiles = [{"name": f"{name}: {len(side.names)} run{'s' if len(side.names) > 1 else ''}", "value": percent(side.mean),
              "more": f"spread between seeds {100 * side.spread:.1f} points" if len(side.names) > 1 else "one seed"}
             for name, side in (("A", comparison.a), ("B", comparison.b))]
    tiles.append({"name": "difference", "value": f"{points(comparison.difference.delta)} points",
                  "more": f"{items} items" + (f"; {p_shown(comparison.difference.p_value)}"
                                              if comparison.difference.p_value is not None else "")})
    text = render_page(
        "seeds.html.jinja", title="Several seeds: B against A", kicker=f"workings comparison of {runs} runs",
        verdict=comparison.verdict, verdict_text=verdict,
        sentence=small_p(comparison.sentence).replace(" %", "\u00a0%"),
        numbers=tiles, difference=_difference(comparison), runs=_runs(a, b, comparison), notes=comparison.notes,
        min_seeds=MIN_SEEDS, command=shlex.join(command), method=METHOD)
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(out, text)
    return out


def _difference(comparison: SeedsComparison) -> Drawn:
    delta, rows, table = comparison.difference.delta, [], []
    for name, interval in (("over items", comparison.difference.interval), ("over seeds", comparison.method_interval)):
        # 4 is the colour of a difference.
        rows.append(IntervalRow(name=name, marks=[interval_mark(delta, interval, 4, signed=True)]))
        table.append([name, points(delta), bounds(interval, signed=True)])
    return interval_figure(
        "Difference of B minus A", rows,
        Table(caption="Difference", heads=["Interval", "Difference", "95 % interval"], rows=table), "percentage points",
        description="; ".join(f"{row[0]}: {row[1]}, interval {row[2]}" for row in table), signed=True)


def _runs(a: Sequence[Path], b: Sequence[Path], comparison: SeedsComparison) -> Drawn:
    rows, table = [], []
    for color, (side, letter, paths) in enumerate(((comparison.a, "A", a), (comparison.b, "B", b))):
        for name, path in zip(side.names, paths, strict=True):
            # As recorded, not recomputed.
            cell = find_unit(path).summary["scorecard"]["overall"]
            interval = interval_of(cell)
            rows.append(IntervalRow(name=f"{letter}: {name}", marks=[interval_mark(cell["mean"], interval, color)]))
            table.append([f"{letter}: {name}", str(cell["n"]), percent(cell["mean"]), bounds(interval),
                          str(cell["errors"])])
    heads = ["Run", "Items", "Accuracy", "95 % interval", "Errors"]
    return interval_figure("Accuracy of every run", rows, Table(caption="Runs", heads=heads, rows=table),
                           "right answers, %", description="; ".join(f"{row[0]}: {row[2]}" for row in table))
