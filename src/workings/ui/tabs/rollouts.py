"""Completions of a run's rollouts with their rewards: a rollout's groups, and a prompt over the run."""

from operator import attrgetter
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workings.errors import RecordError, RequestError
from workings.record.layout import CONFIG, TEACHER
from workings.reports.figures import NARROW, WIDE, Drawn, Table, key_entry
from workings.reports.line_chart import Curve, LineChart, draw_line_chart
from workings.reports.rollouts import rollout_steps
from workings.ui.rollouts import Order, PromptHistory, Rollouts, prompt_history, rollout_page
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab


class RolloutsQuery(BaseModel):
    """The rollout or prompt on the page, and how it is shown."""

    step: int = Field(default=0, ge=0)
    order: Order = "drawn"
    find: str = Field(default="", max_length=500)
    prompt: str = Field(default="", max_length=2_000)
    sheet: int = 1


def run_rollouts(site: Site, name: str, step: int = 0, order: Order = "drawn", find: str = "", prompt: str = "",
                 sheet: int = 1) -> Rollouts:
    """Groups of the rollout that an update learned from (0: of the last one) or, with ``prompt``, its history.

    ``sheet`` is the page of groups, from 1.
    """
    run = site.folder.path(name)
    steps = rollout_steps(run)
    if not steps:
        raise RequestError(f"rollouts of {name}", "a run that learned from what it wrote itself", "")
    if prompt:
        return Rollouts(run=name, first=steps[0], last=steps[-1], count=len(steps), teacher=_teacher(site, run),
                        history=prompt_history(site.rollouts, run, prompt, page=sheet))
    # Several updates may learn from one rollout, which is recorded under the first of them.
    update = _first_update(site, name, step or steps[-1])
    return around(site, name, steps, update).model_copy(update={
        "rollout": rollout_page(site.rollouts, run, update, order=order, find=find, page=sheet)})


def around(site: Site, name: str, steps: list[int], step: int) -> Rollouts:
    """The rollouts before and after one."""
    return Rollouts(run=name, first=steps[0], last=steps[-1], count=len(steps),
                    teacher=_teacher(site, site.folder.path(name)),
                    before=max((other_step for other_step in steps if other_step < step), default=None),
                    after=min((other_step for other_step in steps if other_step > step), default=None))


def _teacher(site: Site, run: Path) -> str:
    """The name of the run or model that a run learns from; empty where it has none."""
    # A file of the record and not a key of the recipe: a recipe may name a folder that has moved.
    if not (run / TEACHER).is_file():
        return ""
    teacher = site.folder.object(run / TEACHER)
    return str(teacher.get("run") or teacher.get("id") or "a teacher that was not named")


def _first_update(site: Site, name: str, step: int) -> int:
    """First update of the rollout that an update learned from: a rollout may serve several."""
    algorithm = site.folder.object(site.folder.path(name) / CONFIG).get("algorithm", {})
    updates = algorithm.get("updates", 1) if isinstance(algorithm, dict) else 1
    # Updates count from 1: with three of a rollout, 1 to 3 learn from the first one.
    return step - (step - 1) % updates if type(updates) is int and updates > 0 else step


def values(site: Site, run: OpenedRun, query: RolloutsQuery) -> dict[str, Any]:
    """A page of groups or a prompt's history; a rollout that cannot be read is a sentence, and the others stay."""
    parameters = {name: getattr(query, name) for name in RolloutsQuery.model_fields}
    shown = {"wanted": query, "problem": "", "figure": None}
    try:
        answer = run_rollouts(site, run.name, **parameters)
    except RecordError as error:
        # The neighbors are still known, so the page can lead past a broken rollout.
        steps = rollout_steps(run.path)
        return shown | {"drawn": around(site, run.name, steps, query.step or steps[-1]), "problem": str(error)}
    return shown | {"drawn": answer, "figure": _figure(answer.history)
                    if answer.history and not answer.teacher else None}


def _figure(history: PromptHistory) -> Drawn | None:
    """Rewards of a prompt over the rollouts that drew it; None where that is one."""
    turns = history.turns
    if len(turns) < 2:
        return None
    # Dots, because a prompt is drawn at a few updates and nothing is known between them.
    curves = [Curve(name=name, color=color, style="dots", points=[(float(turn.step), read(turn)) for turn in turns])
              for color, (name, read) in enumerate(_LINES)]
    alt = "; ".join(f"{curve.name}: {curve.points[0][1]:.3g} at update {turns[0].step}, {curve.points[-1][1]:.3g} at "
                     f"update {turns[-1].step}" for curve in curves)
    chart = LineChart(title="Rewards of this prompt", description=alt, curves=curves, x_label="update",
                      y_label="reward")
    return Drawn(wide=draw_line_chart(chart, WIDE, 240), narrow=draw_line_chart(chart, NARROW, 220),
                 key=[key_entry(curve.name, curve.color, "mark") for curve in curves],
                 table=Table(caption="Rewards of this prompt", heads=["Update", *(name for name, _ in _LINES)],
                             rows=[[str(turn.step), *(f"{read(turn):.3g}" for _, read in _LINES)] for turn in turns]))


_LINES = (("mean", attrgetter("mean")), ("lowest", attrgetter("lowest")), ("highest", attrgetter("highest")))

TAB = Tab(key="rollouts", title="Rollouts", position=12, query=RolloutsQuery, values=values, answer=run_rollouts,
          shown=lambda run: run.trained and bool(rollout_steps(run.path)))
