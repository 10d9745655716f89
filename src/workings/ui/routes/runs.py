"""`/`: the list of runs; `/run/NAME`: one run, with the tabs of `workings.ui.tabs`."""

import inspect
from collections import Counter
from functools import partial
from itertools import groupby
from typing import Annotated, Any, Literal
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, Field

from workings.errors import WorkingsError
from workings.reports.gather import bare_view, commands
from workings.reports.html import render_report, report_views
from workings.ui.ask import AskForm, start
from workings.ui.detail import read_detail
from workings.ui.jobs import Job
from workings.ui.listing import RunRow
from workings.ui.routes.compare import MAX_RUNS
from workings.ui.site import Site, html_file
from workings.ui.tabs import TABS, OpenedRun, PageQuery

SortKey = Literal["started_at", "name", "state", "recipe", "model", "engine", "device", "dtypes", "tokens", "loss",
                  "steps", "accuracy", "verified"]


class ListQuery(BaseModel):
    """Parameters of the list's address."""

    q: str = Field(default="", max_length=200, description="Words, each in some column")
    state: str = ""
    sort: SortKey = "started_at"
    order: Literal["up", "down"] = "down"
    earlier: bool = Field(default=False, description="Include interrupted runs that were resumed")

    def address(self, **changes: Any) -> str:
        """The list's address with some parameters changed; defaults are left out."""
        parameters = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return f"/?{urlencode(parameters)}" if parameters else "/"


def listed(site: Site, wanted: ListQuery) -> dict[str, Any]:
    """Runs that pass the query, in its order; sorted by time, running ones come first."""
    rows = site.rows()
    passing = [row for row in rows if _passes(row, wanted)]
    passing.sort(key=lambda row: row.name)
    passing.sort(key=lambda row: _key(row, wanted.sort), reverse=wanted.order == "down")
    if wanted.sort == "started_at":
        passing.sort(key=lambda row: row.state != "running")
    # The evaluation of a run's base model is not counted: the run's row shows it.
    return {"folder": site.folder.root.name, "total": sum(not row.base_of for row in rows),
            "found": sum(not row.base_of for row in passing), "rows": passing,
            "states": sorted({row.state for row in rows})}


def _passes(row: RunRow, wanted: ListQuery) -> bool:
    """Whether a row has the state and, in any columns, all words of a query."""
    text = " ".join((row.name, row.recipe, row.learned_from, row.model, row.engine, row.device, row.dtypes,
                     row.state)).casefold()
    return wanted.state in ("", row.state) and all(word in text for word in wanted.q.casefold().split())


def _key(row: RunRow, sort: str) -> Any:
    if sort == "accuracy":
        return row.accuracy["mean"] if row.accuracy else -1.0
    if sort == "verified":
        return row.verified.level if row.verified else -2  # below a run that reached no level
    if sort == "loss":
        return row.loss if row.loss is not None else float("inf")
    return getattr(row, sort)


def router(site: Site) -> APIRouter:
    """Routes of the list and of a run."""
    routes = APIRouter()

    @routes.get("/api/runs")
    def runs_json(wanted: Annotated[ListQuery, Query()]) -> dict[str, Any]:
        """Runs of the folder."""
        return listed(site, wanted)

    @routes.get("/", include_in_schema=False)
    def runs_page(wanted: Annotated[ListQuery, Query()]) -> HTMLResponse:
        found = listed(site, wanted)
        if not found["total"]:
            return site.html("start.html.jinja", page="start", jobs=site.jobs.all(), empty=True, shipped=[],
                             quickstart="quickstart")
        earlier = Counter(row.earlier_of for row in found["rows"] if row.earlier_of)
        runs = [row for row in found["rows"] if row.kind == "run" and not (row.earlier_of and not wanted.earlier)]
        alone = [row for row in found["rows"] if row.kind != "run" and not row.base_of]
        return site.html("runs.html.jinja", page="runs", found=found, wanted=wanted, runs=runs, alone=alone,
                         earlier=earlier, most=MAX_RUNS)

    _run_routes(site, routes)
    return routes


def _run_routes(site: Site, routes: APIRouter) -> None:
    @routes.get("/api/run/{name:path}")
    def run_json(name: str) -> dict[str, Any]:
        """One run: its row in the list, and the contents of its files."""
        run = site.folder.path(name)
        return {"row": site.row(run), "detail": read_detail(site.folder, run)}

    @routes.get("/api/live/{name:path}")
    def live_json(name: str) -> RunRow:
        """Progress of a run: its row in the list, without values that take long to read."""
        return site.row(site.folder.path(name), verdict=False)

    # FastAPI makes parameters of the arguments that `partial` leaves.
    for key, tab in TABS.items():
        if tab.answer is not None:
            routes.get(f"/api/{key}/{{name:path}}", name=f"{key}_json",
                       description=inspect.getdoc(tab.answer))(partial(tab.answer, site))

    @routes.get("/export/run/{name:path}", include_in_schema=False)
    def export_run(name: str) -> Response:
        return html_file(render_report(report_views([site.folder.path(name)], None), None), name)

    @routes.post("/api/ask/{name:path}", name="ask")
    def ask_json(name: str, form: Annotated[AskForm, Form()]) -> Job:
        """Ask a run and its base model a question; the job has the answers."""
        return start(site, site.folder.path(name), form)

    @routes.post("/ask/{name:path}", include_in_schema=False)
    def ask_form(name: str, form: Annotated[AskForm, Form()]) -> RedirectResponse:
        ask_json(name, form)
        return RedirectResponse(f"/run/{quote(name)}?tab=ask", 303)

    @routes.get("/run/{name:path}", include_in_schema=False)
    def run_page(name: str, wanted: Annotated[PageQuery, Query()]) -> Response:
        try:
            return _page(site, name, wanted)
        except (FileNotFoundError, WorkingsError):
            # Sealing has renamed the run's directory. It does so once.
            return _page(site, name, wanted)


def _page(site: Site, name: str, wanted: PageQuery) -> Response:
    job = next(iter(site.jobs.about("train", name, 1)), None)
    run = OpenedRun.open(site, name)
    shown = {key: tab for key, tab in TABS.items() if tab.shown(run)}
    # The tab of a link that names none, or one that this run does not have.
    first = "curves" if run.row.state == "running" and "curves" in shown else next(iter(shown))
    key = wanted.tab if wanted.tab in shown else first
    values = shown[key].values(site, run, wanted)
    command_lines = commands([bare_view(run.path)]) if run.sealed and run.trained else []
    return site.html("run.html.jinja", page="runs", row=run.row, detail=run.detail, tab=key, commands=command_lines,
                     sealed=run.sealed, training_job=job,
                     tabs=[(group, list(members)) for group, members in groupby(
                         shown.items(), lambda item: item[1].group)],
                     **values)
