"""`/compare`: two runs against each other, or several in a table."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response

from workings.errors import RequestError
from workings.evaluation.comparison.compare import Comparison
from workings.evaluation.comparison.several_runs import rank
from workings.record.layout import SEAL
from workings.reports import figures
from workings.reports.gather import configuration_rows, view_run
from workings.reports.html import render_report, report_views, verdict_text
from workings.ui.answers import Change, changes, compared, with_wrong_step, wrong_steps
from workings.ui.requests import paged
from workings.ui.site import Site, html_file

MAX_RUNS = 12
"""Number of pairs of colours and dashes, by which curves are told apart."""
PAIRS_A_PAGE = 10
Names = Annotated[list[str], Query(default_factory=list, description="Two to twelve runs, A first")]


def run_paths(site: Site, names: list[str]) -> list[Path]:
    """Paths of two to `MAX_RUNS` different runs."""
    if not 2 <= len(names) <= MAX_RUNS or len(set(names)) != len(names):
        raise RequestError(f"{len(set(names))} runs cannot be compared", f"2 to {MAX_RUNS} different runs",
                           "select them in the list")
    return [site.folder.path(name) for name in names]


def answer_of(site: Site, names: list[str]) -> tuple[dict[str, Any], Comparison | None]:
    """The result of `workings compare --json` as ``comparison`` or ``ranking``, or a ``problem``; the comparison."""
    runs = run_paths(site, names)
    comparison: Comparison | None = None
    values: dict[str, Any] = {"runs": names, "comparison": None, "ranking": None, "problem": "", "counts": {}}
    try:
        if len(runs) == 2:
            comparison = compared(site.folder, *runs)
            values["comparison"] = comparison.to_json()
        else:
            values["ranking"] = rank(runs)
    except RequestError as error:  # not comparable; the page still shows what differs
        values["problem"] = f"{error.given}; expected {error.expected}"
    if comparison is not None and comparison.difference is not None:
        values["counts"] = {change: len(rows) for change, rows in changes(site.folder, *runs).items()}
    return values, comparison


def pairs_page(site: Site, a: Path, b: Path, show: Change, page: int) -> dict[str, Any]:
    """Items of one kind of change, with the answers of both runs side by side."""
    shown, pages = paged(changes(site.folder, a, b)[show], page, PAIRS_A_PAGE)
    rows = [{"id": before.id, "section": before.section, "prompt": before.prompt, "gold": before.gold,
             "a": with_wrong_step(before), "b": with_wrong_step(after)} for before, after in shown]
    return {"page": page, "pages": pages, "rows": rows}


def router(site: Site) -> APIRouter:
    """Routes of the comparison."""
    routes = APIRouter()

    @routes.get("/api/compare")
    def compare_json(run: Names) -> dict[str, Any]:
        """Two runs: difference, interval, verdict. Three or four: a table."""
        return answer_of(site, run)[0]

    @routes.get("/export/compare", include_in_schema=False)
    def export(run: Names) -> Response:
        _, comparison = answer_of(site, run)
        return html_file(render_report(report_views(run_paths(site, run), comparison), comparison), "comparison")

    @routes.get("/compare", include_in_schema=False)
    def compare_page(run: Names, show: Change = "newly_right", page: int = 1) -> HTMLResponse:
        answer, comparison = answer_of(site, run)
        paths = run_paths(site, run)
        views = [view_run(path, color) for color, path in enumerate(paths) if (path / SEAL).is_file()]
        configured = [view for view in views if view.manifest is not None]
        same, different = configuration_rows(configured)
        delta = figures.delta_figure(comparison) if comparison else None
        return site.html(
            "compare.html.jinja", page="runs", answer=answer, comparison=comparison, names=run,
            verdict=verdict_text(comparison), show=show, same=same,
            different=different, configured=[view.name for view in configured],
            accuracy=figures.accuracy_figure(views), delta=delta, flips=figures.flips_table(comparison),
            pass_rates=figures.pass_table(comparison), breaks_caption=figures.CAPTION,
            breaks=figures.first_wrong_steps_table([
                (view.name, wrong_steps(site.folder, view.evaluation))
                for view in views if view.evaluation is not None]),
            pairs=pairs_page(site, paths[0], paths[1], show, page) if delta else None,
            trained=[name for name, path in zip(run, paths, strict=True) if (path / "train").is_dir()])

    return routes
