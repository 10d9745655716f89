"""`/run/NAME`: one run, with the tabs of `workings.ui.tabs`."""

import inspect
import tempfile
from collections.abc import Mapping
from functools import partial
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from fastapi.responses import RedirectResponse, Response
from pydantic import BaseModel, create_model

from workings.errors import RequestError, WorkingsError
from workings.reports.gather import bare_view, commands
from workings.reports.html import write_report
from workings.ui.detail import Detail, read_detail
from workings.ui.jobs import Job
from workings.ui.listing import RunRow, starting_row
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab
from workings.ui.tabs import TABS
from workings.ui.tabs.ask import AskForm, start


class RunAnswer(BaseModel):
    """One run: its row in the list, and the contents of its files."""

    row: RunRow
    detail: Detail


def router(site: Site, tabs: Mapping[str, Tab] = TABS) -> APIRouter:
    """Routes of a run."""
    routes = APIRouter()

    @routes.get("/api/run/{name:path}")
    def run_json(name: str) -> RunAnswer:
        """One run."""
        run = site.folder.path(name)
        return RunAnswer(row=site.row(run), detail=read_detail(site.folder, run))

    @routes.get("/api/live/{name:path}")
    def live_json(name: str) -> RunRow:
        """Progress of a run: its row in the list, without values that take long to read."""
        return site.live(name)

    # `partial` hides the site from FastAPI, which makes parameters of the remaining arguments.
    for tab in tabs.values():
        if tab.answer is not None:
            routes.get(f"/api/{tab.key}/{{name:path}}", name=f"{tab.key}_json",
                       description=inspect.getdoc(tab.answer))(partial(tab.answer, site))

    @routes.get("/export/run/{name:path}", include_in_schema=False)
    def export_run(name: str) -> Response:
        run = site.folder.path(name)
        with tempfile.TemporaryDirectory() as temporary:
            page = write_report(Path(temporary) / "report.html", [run]).read_bytes()
        return Response(page, media_type="text/html", headers={
            "content-disposition": f'attachment; filename="{_file_name(name)}.html"'})

    _ask_the_model(site, routes)

    parameters = _parameters(tabs)

    @routes.get("/run/{name:path}", include_in_schema=False)
    def run_page(name: str, wanted: Annotated[parameters, Query()]) -> Response:  # type: ignore[valid-type]
        try:
            return _page(site, tabs, name, wanted)
        except (FileNotFoundError, WorkingsError):
            # Sealing renames the directory of a run. This happens once, so the second reading is complete.
            return _page(site, tabs, name, wanted)

    return routes


def _file_name(name: str) -> str:
    # A quote or line break in a header's value would end it or add a header.
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name)[:100] or "run"


def _parameters(tabs: Mapping[str, Tab]) -> type[BaseModel]:
    """Parameters of the page's address: the tab, and the parameters of all tabs."""
    keys: Any = Literal.__getitem__(tuple(tabs))
    which_tab = create_model("WhichTab", tab=(keys | None, None))  # the last base's fields are checked first
    return create_model("PageQuery", __base__=(*dict.fromkeys(tab.query for tab in tabs.values()), which_tab))


def _page(site: Site, tabs: Mapping[str, Tab], name: str, wanted: Any) -> Response:
    job = next(iter(site.jobs.about("train", name, 1)), None)
    try:
        run = OpenedRun.open(site, name)
    except RequestError:
        if (page := _page_before_the_run(site, name, job)) is None:
            raise
        return page
    shown = {key: tab for key, tab in tabs.items() if tab.shown(run)}
    # A link may name a tab that this run lacks: show the first one. A running run is
    # watched by its curves.
    first = "curves" if run.row.state == "running" and "curves" in shown else next(iter(shown))
    key = wanted.tab if wanted.tab in shown else first
    values = shown[key].values(site, run, wanted)
    command_lines = commands([bare_view(run.path)]) if run.sealed and run.trained else []
    return site.html("run.html.jinja", page="runs", row=run.row, detail=run.detail, tab=key, commands=command_lines,
                     sealed=run.sealed, training_job=job,
                     tabs=[(group, list(members)) for group, members in groupby(shown.values(), attrgetter("group"))],
                     **values)


def _page_before_the_run(site: Site, name: str, job: Job | None) -> Response | None:
    """The page of a run without a directory yet, or of the command that ended without one; None without either."""
    if (phase := site.phases().get(name)) is not None:
        return site.html("starting.html.jinja", page="runs", row=starting_row(name, phase), job=job)
    if job is None:
        return None
    # Before the command says what it does, it imports libraries for some seconds.
    row = RunRow(name=name, kind="run", state="running", started_at=job.started_at, phase="starting", begun=True)
    return (site.html("starting.html.jinja", page="runs", row=row, job=job) if job.state == "running"
            else RedirectResponse(f"/jobs/{job.id}", 303))


def _ask_the_model(site: Site, routes: APIRouter) -> None:
    """Routes that ask a run's checkpoint a question and lead back to the tab with the answer."""

    @routes.post("/api/ask/{name:path}", name="ask")
    def ask_json(name: str, form: Annotated[AskForm, Form()]) -> Job:
        """Ask a run and its base model a question; the job has the answers."""
        return start(site, site.folder.path(name), form)

    @routes.post("/ask/{name:path}", include_in_schema=False)
    def ask_form(name: str, form: Annotated[AskForm, Form()]) -> RedirectResponse:
        ask_json(name, form)
        return RedirectResponse(f"/run/{quote(name)}?tab=ask", 303)
