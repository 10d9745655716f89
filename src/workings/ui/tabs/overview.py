"""One screen about a run: accuracy and verdict, loss, memory, time, and five answers."""

from typing import Any

from workings.errors import RecordError, RequestError
from workings.evaluation.comparison.compare import Comparison
from workings.ui.answers import Answer, ItemsQuery, search
from workings.ui.comparisons import compared
from workings.ui.listing import headline_values
from workings.ui.memory_bars import memory_bar
from workings.ui.site import Site
from workings.ui.tab import NoQuery, OpenedRun, Tab

ANSWERS = 5


def values(site: Site, run: OpenedRun, query: NoQuery) -> dict[str, Any]:
    """What the cards and the answers show; what cannot be read is left out, and its tab says why."""
    lines = _or_empty(lambda: site.folder.metrics(run.path))
    metric, where, numbers = headline_values(lines)
    return {"metric": metric, "metric_of": where, "numbers": numbers, "comparison": _comparison(site, run),
            "answers": _answers(site, run), "bar": memory_bar(run.detail.memory),
            "training_seconds": sum(line["seconds"] for line in lines)}


def _comparison(site: Site, run: OpenedRun) -> Comparison | None:
    """The run against the untrained model's answers next to it."""
    if not run.row.base or not run.evaluated:
        return None
    try:
        return compared(site.folder, site.folder.path(run.row.base), run.path)
    except (RecordError, RequestError):
        return None  # the page that compares them says why


def _answers(site: Site, run: OpenedRun) -> list[Answer]:
    """The first items, wrong ones before correct ones."""
    return _or_empty(lambda: search(site.folder, run.path, ItemsQuery()).rows[:ANSWERS]) if run.evaluated else []


def _or_empty(read: Any) -> list[Any]:
    try:
        return list(read())
    except RecordError:
        return []


TAB = Tab(key="overview", title="Overview", position=5, group="Run", values=values, shown=lambda run: run.trained)
