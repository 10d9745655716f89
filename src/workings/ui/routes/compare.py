"""`/compare`: two runs against each other, or several in a table."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import BeforeValidator

from workings.errors import RecordError, RequestError
from workings.evaluation.comparison.compare import Comparison
from workings.evaluation.comparison.several_runs import rank
from workings.evaluation.unit import EvaluationRecord, find_pair
from workings.record.layout import CONFIG, DATA_DIGESTS, DEVICE_CHECKS, ENVIRONMENT, MANIFEST, SEAL
from workings.reports import figures
from workings.reports.gather import configuration_rows, view_run
from workings.reports.html import render_report, report_views, verdict_text
from workings.ui.answers import ITEMS_A_PAGE, STEP_FILTERS, Change, changes, compared, pair, step_filter, wrong_steps
from workings.ui.folder import Folder
from workings.ui.number_format import flat_texts
from workings.ui.requests import paged
from workings.ui.site import Site, html_file

MAX_RUNS = 12
"""More curves cannot be told apart: there are this many pairs of colours and dashes."""
CODE_FIELDS = ("commit_sha", "dirty_diff_digest", "engine_distribution")
DEVICE_FIELDS = ("platform", "kind", "count", "mesh")
Within = Annotated[float | None, Query(
    gt=0, lt=100, description="Margin of equivalence in percentage points; empty: no test of equivalence"),
    BeforeValidator(lambda text: text or None)]
Names = Annotated[list[str], Query(default_factory=list, description="Two to twelve runs, A first")]


def two(site: Site, names: list[str]) -> list[Path]:
    """Places of two to `MAX_RUNS` different runs."""
    if not 2 <= len(names) <= MAX_RUNS or len(set(names)) != len(names):
        raise RequestError(f"{len(set(names))} runs cannot be compared", f"2 to {MAX_RUNS} different runs",
                           "select them in the list")
    return [site.folder.path(name) for name in names]


def answer_of(site: Site, names: list[str], within: float | None) -> tuple[dict[str, Any], Comparison | None]:
    """What differs between the runs, and the answer of `workings compare --json` (``comparison`` or ``ranking``).

    ``problem`` says why there is none; ``within`` is the margin of equivalence of two runs in percentage points.
    """
    runs = two(site, names)
    if within is not None and len(runs) > 2:
        raise RequestError(f"equivalence needs two runs, not {len(runs)}", "two runs")
    comparison: Comparison | None = None
    # Compare settings first, because they explain why runs are not comparable.
    values: dict[str, Any] = {
        "runs": names, "comparison": None, "ranking": None, "problem": "", "different": differences(site.folder, runs),
        "counts": {}, "first_wrong_step": {}}
    try:
        if len(runs) == 2:
            comparison = compared(site.folder, runs[0], runs[1], None if within is None else within / 100)
            values["comparison"] = comparison.to_json()
        else:
            values["ranking"] = rank(runs)
    # Runs that are not comparable are an answer too: the page still shows what differs.
    except RequestError as error:
        values["problem"] = f"{error.given}; expected {error.expected}"
    if comparison is not None and comparison.difference is not None:
        values["first_wrong_step"] = {side.name: wrong_steps(site.folder, EvaluationRecord(Path(side.path))).kinds
                                      for side in (comparison.a, comparison.b) if side is not None}
        values["counts"] = {change: len(rows) for change, rows in changes(site.folder, *runs).items()}
    return values, comparison


def pairs_page(site: Site, names: list[str], show: Change, page: int, wrong_step: str = "") -> dict[str, Any]:
    """Items of one kind of change, side by side; filtered by either side's first wrong equation."""
    runs = two(site, names)[:2]
    rows = changes(site.folder, *runs)[show]
    if wrong_step:
        has_step = [step_filter(site.folder, record.path, wrong_step) for record in find_pair(*runs)]
        rows = [pair for pair in rows if any(has(row) for has, row in zip(has_step, pair, strict=True))]
    shown, pages = paged(rows, page, ITEMS_A_PAGE // 5)
    return {"show": show, "found": len(rows), "page": page, "pages": pages,
            "rows": [pair(x, y, show) for x, y in shown]}


def differences(folder: Folder, runs: Sequence[Path]) -> list[dict[str, Any]]:
    """All recorded facts that differ; a run without one says so."""
    sides = [_facts(folder, run) for run in runs]
    rows = []
    for group in sides[0]:
        for key in sorted(set().union(*(side[group] for side in sides))):
            values = [side[group].get(key, "not recorded") for side in sides]
            # The recipe's name differs in nearly all runs and has no effect.
            if len(set(values)) > 1 and (group, key) != ("recipe", "name"):
                rows.append({"group": group, "key": key, "values": values})
    return rows


def _facts(folder: Folder, run: Path) -> dict[str, dict[str, str]]:
    def read(name: str) -> dict[str, Any]:
        try:
            return folder.object(run / name)
        except RecordError:
            return {}

    manifest = read(MANIFEST)
    # The time of recording always differs.
    environment = {key: value for key, value in flat_texts(read(ENVIRONMENT)).items() if not key.startswith("time")}
    device = {key: value for key, value in read(DEVICE_CHECKS).items() if key in DEVICE_FIELDS}
    return {
        "recipe": flat_texts(read(CONFIG)),
        "data": flat_texts(read(DATA_DIGESTS) | {"model": manifest.get("model_id", "not recorded")}),
        "environment": environment | flat_texts({"device": device, "actual_dtypes": manifest.get("actual_dtypes", {})}),
        "code": flat_texts({key: value for key, value in manifest.items() if key in CODE_FIELDS})}


def router(site: Site) -> APIRouter:
    """Routes of the comparison."""
    routes = APIRouter()

    @routes.get("/api/compare")
    def compare_json(run: Names, within: Within = None) -> dict[str, Any]:
        """Two runs: difference, interval, verdict. Three or four: a table."""
        return answer_of(site, run, within)[0]

    @routes.get("/api/pairs")
    def pairs_json(run: Names, show: Change = "newly_right", page: int = 1, wrong_step: str = "") -> dict[str, Any]:
        """Items that both answered, by what changed from A to B, and by the first wrong equation of either."""
        return pairs_page(site, run, show, page, wrong_step)

    @routes.get("/export/compare", include_in_schema=False)
    def export(run: Names, within: Within = None) -> Response:
        comparison = answer_of(site, run, within)[1]
        return html_file(render_report(report_views(two(site, run), comparison), comparison), "comparison")

    @routes.get("/compare", include_in_schema=False)
    def compare_page(run: Names, show: Change = "newly_right", page: int = 1, wrong_step: str = "",
                     within: Within = None) -> HTMLResponse:
        answer, comparison = answer_of(site, run, within)
        paths = two(site, run)
        # An unfinished run has no manifest; its curves come from the log.
        views = [view_run(path, color) for color, path in enumerate(paths) if (path / SEAL).is_file()]
        same, _ = configuration_rows([view for view in views if view.manifest is not None])
        delta = figures.delta_figure(comparison) if comparison else None
        return site.html(
            "compare.html.jinja", page="runs", answer=answer, comparison=comparison, names=run,
            verdict=verdict_text(comparison), show=show, same=same,
            within="" if within is None else f"{within:g}", wrong_step=wrong_step, steps=STEP_FILTERS,
            accuracy=figures.accuracy_figure(views), delta=delta, flips=figures.flips_table(comparison),
            pass_rates=figures.pass_table(comparison), breaks_caption=figures.CAPTION,
            breaks=figures.first_wrong_steps_table([
                (view.name, wrong_steps(site.folder, view.evaluation))
                for view in views if view.evaluation is not None]),
            pairs=pairs_page(site, run, show, page, wrong_step) if delta else None,
            trained=[name for name, path in zip(run, paths, strict=True) if (path / "train").is_dir()])

    return routes
