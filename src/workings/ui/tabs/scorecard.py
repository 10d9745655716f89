"""Accuracy with its intervals, how the model answers, and a form to evaluate it."""

from typing import Any

from workings.reports.figures import accuracy_figure
from workings.reports.gather import view_run
from workings.reports.run_table import behaviour_rows
from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab


def values(site: Site, run: OpenedRun, query: NoQuery) -> dict[str, Any]:
    """Figure, rows and card of an evaluation, and whether the run can be evaluated."""
    about: dict[str, Any] = {"evaluated": run.evaluated, "can_evaluate": run.can_be_evaluated}
    if not run.evaluated:
        return about
    view = view_run(run.path, 0)
    return about | {"figure": accuracy_figure([view]), "behaviour": behaviour_rows([view]), "card": view.scorecard}


TAB = Tab(key="scorecard", title="Scorecard", position=40, group="Answers", values=values,
          shown=lambda run: run.row.kind != "samples" and (run.evaluated or run.can_be_evaluated))
