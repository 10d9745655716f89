"""`/run/NAME`: one run, a tab for each question about it."""

import tempfile
from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse, Response
from pydantic import BaseModel

from workings.record.layout import EVENTS, PARTIAL_SUFFIX
from workings.reports.figures import accuracy_figure
from workings.reports.gather import commands, view_run
from workings.reports.html import write_report
from workings.reports.run_table import behaviour_rows
from workings.ui.answers import Answers, Result, search, units_of
from workings.ui.detail import Detail, read_detail
from workings.ui.draw import memory_bar
from workings.ui.listing import RunRow
from workings.ui.replays import drawn
from workings.ui.series import Curves, X, curves, places
from workings.ui.site import Site
from workings.ui.verified import Verified

Tab = Literal["curves", "device", "recipe", "scorecard", "items", "samples", "checks", "replays", "log", "files"]
TABS: dict[str, str] = {"curves": "Curves", "device": "Device and memory", "recipe": "Recipe",
                        "scorecard": "Scorecard", "items": "Items", "samples": "Samples", "checks": "Checks",
                        "replays": "Replays", "log": "Log", "files": "Files"}


class RunAnswer(BaseModel):
    """One run: its row in the list, and all that its files say."""

    row: RunRow
    detail: Detail


class Checks(BaseModel):
    """What `workings verify` said, if somebody asked."""

    run: str
    verified: Verified | None
    command: str


def run_curves(site: Site, name: str, x: X, low: float | None = None, high: float | None = None,
               after: float | None = None) -> Curves:
    """A run's curves between two places of the axis, or what came after one."""
    run = site.folder.path(name)
    row, columns = site.live(run), site.folder.columns(run)
    resumed = [event.get("step", event.get("from_step")) for event in site.folder.tail(run / EVENTS).lines()
               if str(event.get("kind", "")).startswith("resumed")]
    at = places(columns, x) if resumed else {}
    return Curves(run=name, x=x, last_step=row.steps, planned_steps=row.planned_steps, state=row.state,
                  seconds_left=row.seconds_left, series=curves(columns, x, low, high, after),
                  resumed_at=[at[step] for step in resumed if step in at])


def router(site: Site) -> APIRouter:
    """Routes of a run."""
    routes = APIRouter()

    @routes.get("/api/run/{name:path}")
    def run_json(name: str) -> RunAnswer:
        """One run."""
        run = site.folder.path(name)
        return RunAnswer(row=site.row(run), detail=read_detail(site.folder, run))

    @routes.get("/api/curves/{name:path}")
    def curves_json(name: str, x: X = "step", low: float | None = None, high: float | None = None,
                    after: float | None = None) -> Curves:
        """Curves of a run over steps, tokens or seconds, thinned; ``low`` and ``high`` bound the axis.

        With ``after``, only what came behind that place of the axis: a page that draws a living run asks for that.
        """
        return run_curves(site, name, x, low, high, after)

    @routes.get("/api/live/{name:path}")
    def live_json(name: str) -> RunRow:
        """How far a run is: its row in the list, and nothing that takes long to read."""
        return site.live(site.folder.path(name))

    @routes.get("/api/items/{name:path}")
    def items_json(name: str, unit: str = "", q: str = "", result: Result = "", section: str = "", rule: str = "",
                   page: int = 1) -> Answers:
        """Items of an evaluation, 50 a page."""
        return search(site.folder, site.folder.path(name), unit=unit, text=q, result=result, section=section,
                      rule=rule, page=page)

    @routes.get("/api/checks/{name:path}")
    def checks_json(name: str) -> Checks:
        """The kept verdict of `workings verify` about a run as it is now."""
        return Checks(run=name, verified=site.verified.of(site.folder.path(name)), command=f"workings verify {name}")

    @routes.get("/export/run/{name:path}", include_in_schema=False)
    def export_run(name: str) -> Response:
        run = site.folder.path(name)
        with tempfile.TemporaryDirectory() as place:
            page = write_report(Path(place) / "report.html", [run]).read_bytes()
        return Response(page, media_type="text/html", headers={
            "content-disposition": f'attachment; filename="{_file_name(name)}.html"'})

    @routes.get("/run/{name:path}", include_in_schema=False)
    def run_page(name: str, tab: Tab = "curves", unit: str = "", q: Annotated[str, Query(max_length=500)] = "",
                 result: Result = "", section: str = "", rule: str = "", page: int = 1) -> HTMLResponse:
        wanted = {"unit": unit, "q": q, "result": result, "section": section, "rule": rule}
        return _page(site, name, tab, wanted, page)

    return routes


def _scorecard(run: Path) -> dict[str, Any]:
    view = view_run(run, 0)
    return {"figure": accuracy_figure([view]), "behaviour": behaviour_rows([view]), "card": view.scorecard}


def _file_name(name: str) -> str:
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name)[:100] or "run"


def _page(site: Site, name: str, tab: str, wanted: dict[str, Any], page: int) -> HTMLResponse:
    run = site.folder.path(name)
    row, detail = site.row(run), read_detail(site.folder, run)
    units = list(units_of(run))
    sealed = not name.endswith(PARTIAL_SUFFIX) and row.state != "unreadable"
    hidden = set() if units else {"items"} if sealed and row.kind == "run" else {"scorecard", "items"}
    hidden |= {name for name, there in (("samples", detail.samples), ("replays", detail.replays)) if not there}
    if row.kind == "evaluation":
        hidden |= {"curves", "device", "recipe", "log"}
    tabs = {key: title for key, title in TABS.items() if key not in hidden}
    shown = tab if tab in tabs else next(iter(tabs))
    values: dict[str, Any] = {}
    if shown == "scorecard":
        values = {"evaluated": bool(units), "can_evaluate": sealed and row.kind == "run",
                  **(_scorecard(run) if units else {})}
    elif shown == "items":
        values = {"answers": search(site.folder, run, unit=wanted["unit"], text=wanted["q"], result=wanted["result"],
                                        section=wanted["section"], rule=wanted["rule"], page=page), **wanted}
    elif shown == "device":
        values = {"bar": memory_bar(detail.memory)}
    elif shown == "replays":
        values = {"figures": {replay.name: drawn(replay) for replay in detail.replays}}
    elif shown == "checks":
        values = {"verified": site.verified.of(run),
                  "job": next((job for job in site.jobs.all() if job.verb == "verify" and job.subject == name
                               and job.state == "running"), None)}
    told = commands([view_run(run, 0)]) if sealed and row.kind == "run" else []
    return site.html("run.html.jinja", page="runs", row=row, detail=detail, tabs=tabs, tab=shown, told=told,
                     sealed=sealed, **values)
