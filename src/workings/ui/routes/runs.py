"""`/`: the list of runs."""

from collections import Counter
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from workings.ui.listing import RunRow
from workings.ui.routes.compare import MAX_RUNS
from workings.ui.site import Site

SortKey = Literal["started_at", "name", "state", "recipe", "model", "engine", "device", "dtypes", "tokens", "loss",
                  "steps", "accuracy", "verified"]


class RunList(BaseModel):
    """Matching runs in the requested order; by time, running ones come first."""

    folder: str
    total: int
    found: int
    states: list[str]
    rows: list[RunRow]


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


def listed(site: Site, text: str, state: str, sort: str, descending: bool) -> RunList:
    """Search (every word in some column), filter and order."""
    rows = site.rows()
    words = text.casefold().split()
    passing = [row for row in rows if (not state or row.state == state) and all(
        word in " ".join((row.name, row.recipe, row.learned_from, row.model, row.engine, row.device, row.dtypes,
                          row.state)).casefold() for word in words)]
    # Sorting is stable: rows that are equal in the asked column stay in the order of their names.
    passing.sort(key=lambda row: row.name)
    passing.sort(key=lambda row: _key(row, sort), reverse=descending)
    if sort == "started_at":
        passing.sort(key=lambda row: row.state != "running")
    # An untrained model's evaluation appears in the row of its run.
    total, found = (sum(not row.base_of for row in run_rows) for run_rows in (rows, passing))
    return RunList(folder=site.folder.root.name, total=total, found=found, rows=passing,
                   states=sorted({row.state for row in rows}))


def _key(row: RunRow, sort: str) -> Any:
    if sort == "accuracy":
        return row.accuracy.mean if row.accuracy else -1.0
    if sort == "verified":
        # A run that reached no level has -1; an unverified run sorts below it.
        return row.verified.level if row.verified else -2
    if sort == "loss":
        return row.loss if row.loss is not None else float("inf")
    return getattr(row, sort)


def router(site: Site) -> APIRouter:
    """Routes of the list."""
    routes = APIRouter()

    @routes.get("/api/runs")
    def runs_json(q: str = "", state: str = "", sort: SortKey = "started_at", order: Literal["up", "down"] = "down",
                  ) -> RunList:
        """Runs of the folder."""
        return listed(site, q, state, sort, order == "down")

    @routes.get("/api/begun")
    def begun_json() -> list[str]:
        """Names of the folder's runs that a process of this machine works on."""
        return sorted(site.phases())

    @routes.get("/", include_in_schema=False)
    def runs_page(wanted: Annotated[ListQuery, Query()]) -> HTMLResponse:
        run_list = listed(site, wanted.q, wanted.state, wanted.sort, wanted.order == "down")
        # Offer the quickstart instead of an empty table.
        if not run_list.total:
            return site.html("start.html.jinja", page="start", jobs=site.jobs.all(), empty=True, shipped=[],
                             quickstart="quickstart")
        earlier = Counter(row.earlier_of for row in run_list.rows if row.earlier_of)
        runs = [row for row in run_list.rows if row.kind == "run" and not (row.earlier_of and not wanted.earlier)]
        return site.html("runs.html.jinja", page="runs", found=run_list, wanted=wanted,
                         runs=runs,
                         alone=[row for row in run_list.rows if row.kind != "run" and not row.base_of], earlier=earlier,
                         begun=sorted(site.phases()), most=MAX_RUNS)

    return routes
