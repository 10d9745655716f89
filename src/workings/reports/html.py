"""Runs and their comparison as one HTML file that opens from disk: no network, no script, figures drawn as SVG."""

import base64
import hashlib
from collections.abc import Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any

import jinja2

from workings.errors import RequestError
from workings.evaluation.comparison.compare import Comparison
from workings.evaluation.first_wrong_step import count_first_wrong_steps
from workings.evaluation.unit import EvaluationRecord
from workings.models.unverified import said_of_recipe
from workings.record import atomic
from workings.reports import figures
from workings.reports.gather import RunView, commands, configuration_rows, sample_pairs, view_run
from workings.reports.run_table import ROOT, behaviour_rows, run_rows

MAX_SAMPLES_SHOWN = 3
MAX_RUNS = 4
"""More curves than this are indistinguishable."""
METHOD = (
    "Accuracies carry Wilson's 95 % score interval, differences over the same independent items Tango's; if items "
    "share a cluster, both are cluster-robust t intervals. The verdict follows from the interval of the difference: "
    "above zero better, below zero worse, otherwise inconclusive. The smallest difference that these items can show is "
    "the one that four of five such comparisons would find; equivalence within a margin uses two one-sided tests of "
    "the same method.")


def write_report(out: Path, runs: Sequence[Path], comparison: Comparison | None = None) -> Path:
    """Write one page about up to four runs or evaluations and, if given, the comparison of two of them.

    Raises `RequestError`: no run, or more than four. `RecordError`: a run cannot be read.
    """
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(out, render_report(report_views(runs, comparison), comparison))
    return out


def render_report(views: Sequence[RunView], comparison: Comparison | None) -> str:
    """The page's HTML; arguments as in `write_report`."""
    configured = [view for view in views if view.manifest is not None]
    manifests = [view.manifest for view in views if view.manifest is not None]
    same, different = configuration_rows(configured)
    kicker = f"workings report on {len(views)} run{'s' if len(views) > 1 else ''}"
    if manifests:
        kicker += f", trained {max(manifest.finished_at for manifest in manifests)[:10]}"
    title = ", ".join(view.name for view in views)
    if comparison:
        title = f"{comparison.name_b} against {comparison.name_a}"
    compared = comparison if comparison and comparison.difference else None
    unverified = dict.fromkeys(said_of_recipe(manifest.config, manifest.architecture) for manifest in manifests)
    breaks = figures.first_wrong_steps_table([(view.name, count_first_wrong_steps(view.evaluation))
                                              for view in views if view.evaluation is not None])
    # Escape, because runs hold foreign texts; strict, because a misspelt name would render as nothing.
    environment = jinja2.Environment(loader=jinja2.PackageLoader("workings.reports"), autoescape=True,
                                     undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["marked"] = figures.marked
    style = (files("workings.reports") / "templates" / "style.css").read_text(encoding="utf-8")
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return environment.get_template("report.html.jinja").render(
        style=style, style_hash=f"sha256-{digest}", kicker=kicker, title=title, comparison=comparison,
        # A no-break space keeps a number and its unit on one line.
        sentence=comparison.sentence.replace(" %", "\u00a0%") if comparison else "",
        verdict_text=verdict_text(comparison), runs=views,
        accuracy=figures.accuracy_figure(views), delta=figures.delta_figure(compared) if compared else None,
        delta_caption=_delta_caption(comparison), flips=figures.flips_table(compared),
        pass_rates=figures.pass_table(compared), losses=figures.curve_figures(views),
        breaks=breaks, breaks_caption=figures.CAPTION, samples=_samples(views, compared),
        names=[comparison.name_a, comparison.name_b] if comparison else [],
        run_rows=run_rows(views), root=ROOT, scored=[view for view in views if view.evaluation],
        behaviour=behaviour_rows(views),
        configured=configured, same=same, different=different, equal=comparison.equal if comparison else [],
        notes=[*filter(None, unverified), *(comparison.notes if comparison else [])], commands=commands(list(views)),
        method=METHOD)


def report_views(runs: Sequence[Path], comparison: Comparison | None) -> list[RunView]:
    """Runs with the compared evaluations; colours follow the order A, B, then the others. Errors of `write_report`."""
    if not 1 <= len(runs) <= MAX_RUNS:
        raise RequestError(f"{len(runs)} runs do not fit on one page", f"1 to {MAX_RUNS}")
    units: dict[Path, EvaluationRecord] = {}
    for side in (comparison.a, comparison.b) if comparison else ():
        if side is not None:
            record = EvaluationRecord(Path(side.path))
            units[(record.run or record.path).resolve()] = record
    compared = list(units)
    ordered = sorted(runs, key=lambda path: [*compared, path.resolve()].index(path.resolve()))
    return [view_run(path, color, units.get(path.resolve())) for color, path in enumerate(ordered)]


def verdict_text(comparison: Comparison | None) -> str:
    """The verdict with the run's name; empty without a comparison."""
    if comparison is None:
        return ""
    subject = f"{comparison.name_b} is " if comparison.verdict in ("better", "worse") else ""
    return subject + comparison.verdict


def _delta_caption(comparison: Comparison | None) -> str:
    if comparison is None:
        return ""
    text = f"{comparison.name_b} minus {comparison.name_a}, item by item, in percentage points, with 95 % intervals."
    if len(comparison.sections) > 1:
        text += " The p values of sections are adjusted for their number (Holm)."
    return text


def _samples(views: Sequence[RunView], comparison: Comparison | None) -> list[Any]:
    if comparison is None or len(views) < 2 or views[0].evaluation is None or views[1].evaluation is None:
        return []
    # Include an item that got worse, if there is one: only gains would flatter B.
    worse = comparison.newly_wrong[:1]
    item_ids = comparison.newly_right[:MAX_SAMPLES_SHOWN - len(worse)] + worse
    return sample_pairs(views[0].evaluation, views[1].evaluation, item_ids)
