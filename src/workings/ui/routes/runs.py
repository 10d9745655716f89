"""`/`: the list of runs."""

from collections import Counter
from typing import Annotated, Any, Literal
from urllib.parse import urlencode

from fastapi import APIRouter, Query
from fastapi.responses import HTMLResponse
from pydantic import BaseModel, Field

from workings.ui.listing import RunRow
from workings.ui.routes.compare import MAX_RUNS
from workings.ui.routes.rounds import Improvement, listed_improvements, rounds_here, shown
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
    differing: list[str] = Field(description="Keys of recipes in which the folder's runs differ: columns to choose")
    improvements: list[Improvement] = Field(description="What `workings improve` made in the folder, unfiltered")


class ListQuery(BaseModel):
    """Parameters of the list's address."""

    q: str = Field(default="", max_length=200, description="Words, each in some column")
    state: str = ""
    sort: SortKey = "started_at"
    order: Literal["up", "down"] = "down"
    column: list[str] = Field(default=[], max_length=12, description="Keys of recipes that are shown as columns")
    group: str = Field(default="", max_length=200, description="A key of the recipes, or folder: runs in groups by it")
    earlier: bool = Field(default=False, description="Include interrupted runs that were resumed")

    def address(self, **changes: Any) -> str:
        """The list's address with some parameters changed; defaults are left out."""
        parameters = self.model_copy(update=changes).model_dump(exclude_defaults=True)
        return f"/?{urlencode(parameters, doseq=True)}" if parameters else "/"


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
                   differing=_differing([row.settings for row in rows if row.settings]),
                   states=sorted({row.state for row in rows}), improvements=listed_improvements(site.folder))


def _differing(settings: list[dict[str, str]]) -> list[str]:
    """Keys that do not have one value in all recipes; a key that a recipe lacks is another value."""
    keys = dict.fromkeys(key for setting in settings for key in setting
                         if key != "name")  # already the recipe's column
    return [key for key in keys if len({setting.get(key) for setting in settings}) > 1]


def _key(row: RunRow, sort: str) -> Any:
    if sort == "accuracy":
        return row.accuracy.mean if row.accuracy else -1.0
    if sort == "verified":
        # A run that reached no level has -1; an unverified run sorts below it.
        return row.verified.level if row.verified else -2
    if sort == "loss":
        return row.loss if row.loss is not None else float("inf")
    return getattr(row, sort)


def _groups(rows: list[RunRow], key: str) -> list[tuple[str, list[RunRow]]]:
    """Rows grouped by a key, in order of first appearance; one group without a key."""
    groups: dict[str, list[RunRow]] = {}
    for row in rows:
        value = row.name.rpartition("/")[0] if key == "folder" else row.settings.get(key, "not said") if key else ""
        groups.setdefault(value, []).append(row)
    return list(groups.items())


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
                         groups=_groups(runs, wanted.group),
                         alone=[row for row in run_list.rows if row.kind != "run" and not row.base_of], earlier=earlier,
                         begun=sorted(site.phases()), most=MAX_RUNS, **shown(rounds_here(site)))

    return routes
