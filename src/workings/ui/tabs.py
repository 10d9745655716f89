"""Tabs of a run's page.

The template of a tab is `tab_KEY.html.jinja`; it sees ``row``, ``detail``, ``sealed`` and what ``values`` returns.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from fastapi import Query
from pydantic import Field

from workings.errors import RecordError, RequestError
from workings.record.layout import CHECKPOINTS, PARTIAL_SUFFIX, SELECTION
from workings.reports.figures import accuracy_figure
from workings.reports.gather import view_run
from workings.reports.rollouts import rollout_steps
from workings.reports.run_table import behaviour_rows
from workings.ui.answers import ItemsQuery, compared, search, units_of
from workings.ui.ask import questions
from workings.ui.curves import run_curves
from workings.ui.detail import read_detail
from workings.ui.listing import RunRow, headline_values
from workings.ui.memory_bars import memory_bar
from workings.ui.rollouts import RolloutsQuery, around, run_rollouts
from workings.ui.site import Site

ANSWERS = 5
"""Answers on a run's first tab."""
T = TypeVar("T")


@dataclass(frozen=True, kw_only=True)
class OpenedRun:
    """The run of a page, read from its files."""

    name: str
    path: Path
    row: RunRow
    """The run's row in the list."""
    detail: dict[str, Any]
    """Contents of the run's files."""
    evaluated: bool
    """Whether the run has an evaluation, or is one."""
    trained: bool
    """Whether it is a run, not a standalone evaluation or unit of samples."""
    sealed: bool
    """Whether it is sealed and readable."""

    @classmethod
    def open(cls, site: Site, name: str) -> "OpenedRun":
        """Open a run by its name. Raises `RequestError` if there is no such run."""
        path = site.folder.path(name)
        row = site.row(path)
        return cls(name=name, path=path, row=row, detail=read_detail(site.folder, path), trained=row.kind == "run",
                   evaluated=bool(units_of(path)),
                   sealed=not path.name.endswith(PARTIAL_SUFFIX) and row.state != "unreadable")

    @property
    def has_weights(self) -> bool:
        """Whether a checkpoint's tensors are here; a pack may have only their digests."""
        return self.sealed and self.trained and any(self.path.glob(f"{CHECKPOINTS}/*/*.safetensors"))


class PageQuery(ItemsQuery, RolloutsQuery):
    """Parameters of the page's address."""

    tab: str = Field(default="", description="Key of the tab; the first one if the run does not have it")


@dataclass(frozen=True, kw_only=True)
class Tab:
    """A tab of a run's page."""

    title: str
    group: Literal["Run", "Training", "Answers", "Record"]
    """Heading above this tab and its neighbours."""
    shown: Callable[[OpenedRun], bool] = lambda run: run.trained
    """Whether a run has this tab. Each run has at least one."""
    values: Callable[[Site, OpenedRun, PageQuery], Mapping[str, Any]] = lambda site, run, query: {}
    """Further values for the template."""
    answer: Callable[..., Any] | None = None
    """Function behind ``/api/KEY/RUN``: its arguments are the `Site`, the run's ``name`` and further parameters of the
    address. None if ``/api/run/RUN`` has the tab's values."""


def overview(site: Site, run: OpenedRun, query: PageQuery) -> dict[str, Any]:
    """Accuracy, verdict, loss, memory, time, and some answers; what cannot be read is left out."""
    lines = _if_readable(lambda: site.folder.metrics(run.path)) or []
    metric, measured_on, numbers = headline_values(lines)
    found = comparison = None
    if run.evaluated:
        found = _if_readable(lambda: search(site.folder, run.path, ItemsQuery()))
    if run.evaluated and run.row.base:
        comparison = _if_readable(lambda: compared(site.folder, site.folder.path(run.row.base), run.path))
    return {"metric": metric, "metric_of": measured_on, "numbers": numbers, "comparison": comparison,
            "answers": found["rows"][:ANSWERS] if found else [], "bar": memory_bar(run.detail["memory"]),
            "training_seconds": sum(line["seconds"] for line in lines)}


def _if_readable(read: Callable[[], T]) -> T | None:
    try:
        return read()
    except (RecordError, RequestError):
        return None  # another tab says why


def rollouts(site: Site, run: OpenedRun, query: PageQuery) -> dict[str, Any]:
    """A page of groups; for an unreadable rollout the problem, and its neighbours."""
    try:
        return {"wanted": query, "problem": "", "drawn": run_rollouts(site, run.name, query)}
    except RecordError as error:
        step = query.step or rollout_steps(run.path)[-1]
        return {"wanted": query, "problem": str(error), "drawn": around(site.folder, run.path, run.name, step)}


def scorecard(site: Site, run: OpenedRun, query: PageQuery) -> dict[str, Any]:
    """Figure, rows and card of an evaluation, and whether the run can be evaluated."""
    about: dict[str, Any] = {"evaluated": run.evaluated, "can_evaluate": run.sealed and run.trained}
    if not run.evaluated:
        return about
    view = view_run(run.path, 0)
    return about | {"figure": accuracy_figure([view]), "behaviour": behaviour_rows([view]), "card": view.scorecard}


def run_items(site: Site, name: str, query: Annotated[ItemsQuery, Query()]) -> dict[str, Any]:
    """Items of an evaluation or samples of a unit, 50 a page."""
    return search(site.folder, site.folder.path(name), query)


def items(site: Site, run: OpenedRun, query: PageQuery) -> dict[str, Any]:
    """A page of items with its filters; the problem if they are unreadable."""
    shown = query.model_dump(include=set(ItemsQuery.model_fields) - {"page"})
    shown |= {"answers": None, "problem": "", "selection": {}}
    try:
        if run.row.kind == "samples":
            shown["selection"] = site.folder.object(run.path / SELECTION)
        shown["answers"] = run_items(site, run.name, query)
    except RecordError as error:
        shown["problem"] = str(error)
    return shown


def checks(site: Site, run: OpenedRun, query: PageQuery) -> dict[str, Any]:
    """The cached verdict, and the running job that verifies the run."""
    running = [job for job in site.jobs.all() if (job.verb, job.subject, job.state) == ("verify", run.name, "running")]
    return {"verified": site.verified.get(run.path), "job": running[0] if running else None}


TABS = {
    "overview": Tab(title="Overview", group="Run", values=overview),
    "curves": Tab(title="Curves", group="Training", answer=run_curves),
    "rollouts": Tab(title="Rollouts", group="Training", values=rollouts, answer=run_rollouts,
                    shown=lambda run: run.trained and bool(rollout_steps(run.path))),
    "device": Tab(title="Device", group="Training",
                  values=lambda site, run, query: {"bar": memory_bar(run.detail["memory"])}),
    "scorecard": Tab(title="Scorecard", group="Answers", values=scorecard,
                     shown=lambda run: run.row.kind != "samples" and (run.evaluated or (run.sealed and run.trained))),
    "items": Tab(title="Items", group="Answers", values=items, answer=run_items,
                 shown=lambda run: run.evaluated),
    "ask": Tab(title="Ask", group="Answers", shown=lambda run: run.has_weights, answer=questions,
               values=lambda site, run, query: {"asked": questions(site, run.row.name)["questions"]}),
    "recipe": Tab(title="Recipe", group="Record"),
    "checks": Tab(title="Checks", group="Record", values=checks, shown=lambda run: True),
    "log": Tab(title="Log", group="Record"),
}
"""Key in addresses -> tab, from left to right."""
