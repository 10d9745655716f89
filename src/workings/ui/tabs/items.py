"""The items of an evaluation: searched, filtered, a page at a time."""

from typing import Any

from pydantic import BaseModel, Field

from workings.ui.answers import AnswersPage, Result, search
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab


class ItemsQuery(BaseModel):
    """The evaluation and the filters of its items on the page."""

    unit: str = ""
    q: str = Field(default="", max_length=500)
    result: Result = ""
    section: str = ""
    rule: str = ""
    wrong_step: str = ""
    page: int = 1


def run_items(site: Site, name: str, unit: str = "", q: str = "", result: Result = "", section: str = "",
              rule: str = "", wrong_step: str = "", page: int = 1) -> AnswersPage:
    """Items of an evaluation, 50 a page."""
    return search(site.folder, site.folder.path(name), unit=unit, text=q, result=result, section=section, rule=rule,
                  wrong_step=wrong_step, page=page)


def values(site: Site, run: OpenedRun, query: ItemsQuery) -> dict[str, Any]:
    """A page of items, and what was searched for."""
    parameters = {name: getattr(query, name) for name in ItemsQuery.model_fields}
    return {"answers": run_items(site, run.name, **parameters)} | {
        name: value for name, value in parameters.items() if name != "page"}


TAB = Tab(key="items", title="Items", position=50, query=ItemsQuery, values=values, answer=run_items,
          shown=lambda run: run.evaluated and run.row.kind != "samples")
