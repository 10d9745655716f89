"""Completions of a run's rollouts with their rewards: the groups of one rollout."""

from pathlib import Path
from typing import Annotated, Any

from fastapi import Query
from pydantic import BaseModel, Field

from workings.errors import RecordError, RequestError
from workings.record.layout import CONFIG, TEACHER
from workings.reports.rollouts import rollout_steps
from workings.ui.folder import Folder
from workings.ui.rollouts import Order, Rollouts, rollout_page
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab


class RolloutsQuery(BaseModel):
    """The rollout on the page, and how it is shown."""

    step: int = Field(default=0, ge=0, description="An update that learned from the rollout; 0: the last one")
    order: Order = "drawn"
    find: str = Field(default="", max_length=500)
    sheet: int = Field(default=1, description="Page of groups, from 1")


def run_rollouts(site: Site, name: str, query: Annotated[RolloutsQuery, Query()]) -> Rollouts:
    """Groups of the rollout that an update learned from."""
    run = site.folder.path(name)
    found = around(site.folder, run, name, query.step)
    # Several updates may share one rollout, which is recorded under the first.
    step = _first_update(site.folder, run, query.step or found.last)
    return around(site.folder, run, name, step).model_copy(update={"rollout": rollout_page(
        site.folder, run, step, order=query.order, find=query.find, page=query.sheet)})


def around(folder: Folder, run: Path, name: str, step: int) -> Rollouts:
    """The rollouts before and after one. Raises `RequestError` for a run that has none."""
    steps = rollout_steps(run)
    if not steps:
        raise RequestError(f"{name} has no rollouts", "a run that learned from its own completions", "")
    return Rollouts(run=name, first=steps[0], last=steps[-1], count=len(steps), teacher=_teacher(folder, run),
                    before=max((other for other in steps if other < step), default=None),
                    after=min((other for other in steps if other > step), default=None))


def _teacher(folder: Folder, run: Path) -> str:
    """The name of a run's teacher; empty if it has none."""
    # From the record, because the recipe's folder may have moved.
    if not (run / TEACHER).is_file():
        return ""
    teacher = folder.object(run / TEACHER)
    return str(teacher.get("run") or teacher.get("id") or "an unnamed teacher")


def _first_update(folder: Folder, run: Path, step: int) -> int:
    """First update of the rollout that an update learned from; several may share one."""
    algorithm = folder.object(run / CONFIG).get("algorithm", {})
    updates = algorithm.get("updates", 1) if isinstance(algorithm, dict) else 1
    # Updates count from 1: with three per rollout, 1 to 3 share the first one.
    return step - (step - 1) % updates if type(updates) is int and updates > 0 else step


def values(site: Site, run: OpenedRun, query: RolloutsQuery) -> dict[str, Any]:
    """A page of groups; an unreadable rollout becomes a sentence, with links to its neighbours."""
    try:
        return {"wanted": query, "problem": "", "drawn": run_rollouts(site, run.name, query)}
    except RecordError as error:
        step = query.step or rollout_steps(run.path)[-1]
        return {"wanted": query, "problem": str(error), "drawn": around(site.folder, run.path, run.name, step)}


TAB = Tab(key="rollouts", title="Rollouts", position=12, group="Training",
          query=RolloutsQuery, values=values, answer=run_rollouts,
          shown=lambda run: run.trained and bool(rollout_steps(run.path)))
