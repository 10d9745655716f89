"""`/`: the list of runs."""

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from workings.ui.listing import RunRow
from workings.ui.rounds import Improvement, listed_improvements, rounds_here
from workings.ui.routes.rounds import shown
from workings.ui.site import Site

SortKey = Literal["started_at", "name", "state", "recipe", "model", "engine", "device", "dtypes", "tokens", "loss",
                  "accuracy", "verified"]


class RunList(BaseModel):
    """Runs of the folder that match, in the asked order."""

    folder: str
    total: int
    found: int
    states: list[str]
    rows: list[RunRow]
    improvements: list[Improvement] = Field(description="What `workings improve` made in the folder, unfiltered")


def listed(site: Site, text: str, state: str, sort: str, descending: bool) -> RunList:
    """Search (every word in some column), filter and order."""
    rows = site.rows()
    words = text.casefold().split()
    found = [row for row in rows if (not state or row.state == state) and all(
        word in " ".join((row.name, row.recipe, row.learned_from, row.model, row.engine, row.device, row.dtypes,
                          row.state)).casefold() for word in words)]
    # Sorting is stable: rows that are equal in the asked column stay in the order of their names.
    found.sort(key=lambda row: row.name)
    found.sort(key=lambda row: _key(row, sort), reverse=descending)
    return RunList(folder=site.folder.root.name, total=len(rows), found=len(found), rows=found,
                   states=sorted({row.state for row in rows}), improvements=listed_improvements(site.folder))


def _key(row: RunRow, sort: str) -> Any:
    if sort == "accuracy":
        return row.accuracy.mean if row.accuracy else -1.0
    if sort == "verified":
        # A run that reached no level has -1, so one that nobody verified stands below it.
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

    @routes.get("/", include_in_schema=False)
    def runs_page(q: Annotated[str, Query(max_length=200)] = "", state: str = "", sort: SortKey = "started_at",
                  order: Literal["up", "down"] = "down") -> HTMLResponse:
        found = listed(site, q, state, sort, order == "down")
        if not found.total:
            return site.html("start.html.jinja", page="start", jobs=site.jobs.all(), empty=True, shipped=[],
                             written=[])
        return site.html("runs.html.jinja", page="runs", found=found, q=q, state=state, sort=sort, order=order,
                         **shown(rounds_here(site)))

    return routes
