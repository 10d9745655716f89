"""The items of an evaluation, or the samples of a unit: searched, filtered, a page at a time."""

from typing import Annotated, Any

from fastapi import Query

from workings.errors import RecordError
from workings.record.layout import SELECTION
from workings.ui.answers import AnswersPage, ItemsQuery, search
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab


def run_items(site: Site, name: str, query: Annotated[ItemsQuery, Query()]) -> AnswersPage:
    """Items of an evaluation or samples of a unit, 50 a page."""
    return search(site.folder, site.folder.path(name), query)


def values(site: Site, run: OpenedRun, query: ItemsQuery) -> dict[str, Any]:
    """A page of items with its filters; unreadable items become a sentence."""
    # The query has the parameters of all tabs: keep only those of this one.
    shown = query.model_dump(include=set(ItemsQuery.model_fields) - {"page"}) | {"answers": None, "problem": "",
                                                                                 "selection": {}}
    try:
        if run.row.kind == "samples":
            shown["selection"] = site.folder.object(run.path / SELECTION)
        return shown | {"answers": run_items(site, run.name, query)}
    except RecordError as error:
        return shown | {"problem": str(error)}


TAB = Tab(key="items", title="Items", position=50, group="Answers", query=ItemsQuery, values=values, answer=run_items,
          shown=lambda run: run.evaluated)
