"""`/run/NAME`: one run, with the tabs of `workings.ui.tabs`."""

import inspect
import tempfile
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Form, Query
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from pydantic import BaseModel, create_model

from workings.errors import RecordError, RequestError
from workings.reports.gather import bare_view, commands
from workings.reports.html import write_report
from workings.ui.detail import Detail, read_detail
from workings.ui.jobs import Job
from workings.ui.listing import RunRow
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab
from workings.ui.tabs import TABS
from workings.ui.tabs.ask import arguments

HEADLINE_METRICS = (("reward", "Mean reward", "rollout"), ("kl_teacher", "Nats per token from the teacher", "rollout"),
                   ("margin", "Margin of pairs", "step"))
"""Key in the log, name, and what a value belongs to."""


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
    def run_page(name: str, wanted: Annotated[parameters, Query()]) -> HTMLResponse:  # type: ignore[valid-type]
        return _page(site, tabs, name, wanted)

    return routes


def _file_name(name: str) -> str:
    # A quote or line break in a header's value would end it or add a header.
    return "".join(sign if sign.isalnum() or sign in "-_." else "-" for sign in name)[:100] or "run"


def _parameters(tabs: Mapping[str, Tab]) -> type[BaseModel]:
    """Parameters of the page's address: the tab, and the parameters of all tabs."""
    keys: Any = Literal.__getitem__(tuple(tabs))
    which_tab = create_model("WhichTab", tab=(keys, next(iter(tabs))))  # the last base's fields are checked first
    return create_model("PageQuery", __base__=(*dict.fromkeys(tab.query for tab in tabs.values()), which_tab))


def _page(site: Site, tabs: Mapping[str, Tab], name: str, wanted: Any) -> HTMLResponse:
    try:
        run = OpenedRun.open(site, name)
    except RequestError:
        # Its address works from the start, before there is a directory.
        if name not in site.phases():
            raise
        return site.html("starting.html.jinja", page="runs", row=site.live(name))
    shown = {key: tab for key, tab in tabs.items() if tab.shown(run)}
    # A link may name a tab that this run lacks: show the first one.
    key = wanted.tab if wanted.tab in shown else next(iter(shown))
    values = shown[key].values(site, run, wanted)
    command_lines = commands([bare_view(run.path)]) if run.sealed and run.trained else []
    return site.html("run.html.jinja", page="runs", row=run.row, detail=run.detail, tab=key, commands=command_lines,
                     headline=_headline_metric(site, run.path), sealed=run.sealed,
                     tabs={key: tab.title for key, tab in shown.items()}, **values)


def _headline_metric(site: Site, run: Path) -> dict[str, Any] | None:
    """The metric to show if the loss is not a token loss: name, first and last value."""
    try:
        lines = site.folder.metrics(run)
    except RecordError:
        return None  # the page's notes say so
    for key, name, where in HEADLINE_METRICS:
        # An update in the middle of a rollout lacks it.
        rewards = [line[key] for line in lines if isinstance(line.get(key), int | float)]
        if rewards:
            return {"name": name, "where": where, "first": round(rewards[0], 6) + 0.0,
                    "last": round(rewards[-1], 6) + 0.0}
    return None


def _ask_the_model(site: Site, routes: APIRouter) -> None:
    """Routes that ask a run's checkpoint a question and lead back to the tab with the answer."""

    @routes.post("/api/ask/{name:path}", name="ask")
    def ask_json(name: str, question: Annotated[str, Form()],
                 max_new_tokens: Annotated[int, Form(ge=1, le=4096)] = 256) -> Job:
        """Ask a run and its base model a question; the job has the answers."""
        run = site.folder.path(name)
        return site.jobs.start("ask", arguments(run, question, max_new_tokens), subject=site.folder.name(run))

    @routes.post("/ask/{name:path}", include_in_schema=False)
    def ask_form(name: str, question: Annotated[str, Form()],
                 max_new_tokens: Annotated[int, Form(ge=1, le=4096)] = 256) -> RedirectResponse:
        # A form sends CRLF line ends; models are trained on LF.
        ask_json(name, question.replace("\r\n", "\n").strip(), max_new_tokens)
        return RedirectResponse(f"/run/{quote(name)}?tab=ask", 303)
