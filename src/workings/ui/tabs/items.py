"""The items of an evaluation: searched, filtered, a page at a time."""

from typing import Annotated, Any

from fastapi import Query

from workings.ui.answers import AnswersPage, ItemsQuery, search
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab


def run_items(site: Site, name: str, query: Annotated[ItemsQuery, Query()]) -> AnswersPage:
    """Items of an evaluation, 50 a page."""
    return search(site.folder, site.folder.path(name), query)


def values(site: Site, run: OpenedRun, query: ItemsQuery) -> dict[str, Any]:
    """A page of items, and what was searched for."""
    # The page of a run hands over the parameters of all its tabs in one object: only those of this tab are shown.
    filters = query.model_dump(include=set(ItemsQuery.model_fields) - {"page"})
    return {"answers": run_items(site, run.name, query)} | filters


TAB = Tab(key="items", title="Items", position=50, query=ItemsQuery, values=values, answer=run_items,
          shown=lambda run: run.evaluated and run.row.kind != "samples")
