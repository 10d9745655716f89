"""Loss, learning rate, speed and memory over steps, tokens or seconds; the page draws them from the JSON twin."""

from typing import Annotated

from fastapi import Query

from workings.errors import RecordError
from workings.record.layout import EVENTS
from workings.ui.series import Curves, XAxis, curves, places
from workings.ui.site import Site
from workings.ui.tab import Tab


def run_curves(site: Site, name: str, x: XAxis = "step", low: float | None = None, high: float | None = None,
               after: float | None = None, mean: Annotated[int, Query(ge=0, le=100_000)] = 0) -> Curves:
    """Curves of a run over steps, tokens or seconds, thinned; ``low`` and ``high`` bound the axis.

    Smoothed ones are the mean of ``mean`` steps (0: chosen by the length of the run; 1: none).
    With ``after``, only points after that place, for a page that shows a running run.
    """
    run = site.folder.path(name)
    row, columns = site.live(site.folder.name(run)), site.folder.columns(run)
    try:
        events = site.folder.tail(run / EVENTS).lines()
    except RecordError:
        events = []  # the page's notes say so, and the curves stay
    resumed = [event.get("step", event.get("from_step")) for event in events
               if str(event.get("kind", "")).startswith("resumed")]
    # Only for a resume, because the mapping has an entry per step.
    at = places(columns, x) if resumed else {}
    return Curves(run=name, x=x, last_step=row.steps, planned_steps=row.planned_steps, state=row.state,
                  seconds_left=row.seconds_left, series=curves(columns, x, low, high, after, mean),
                  resumed_at=[at[step] for step in resumed if step in at])


TAB = Tab(key="curves", title="Curves", position=10, group="Training", shown=lambda run: run.trained, answer=run_curves)
