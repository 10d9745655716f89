"""Preference pairs that a run learned from, with what the reference said of them."""

from typing import Any

from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.record.layout import REFERENCE_LOG_PROBS
from workings.ui.pairs import PairsPage, Ranked, pairs_page
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab


class PairsQuery(BaseModel):
    """Filters and order of the pairs on the page."""

    ranked: Ranked = "data"
    named: str = Field(default="", max_length=500)
    leaf: int = 1


def run_pairs(site: Site, name: str, ranked: Ranked = "data", named: str = "", leaf: int = 1) -> PairsPage:
    """Pairs of a run, 100 a page, with what the reference said of them.

    ``ranked`` `least`: those first whose chosen completion it finds least likely next to the rejected one.
    """
    return pairs_page(site.pairs, site.folder.path(name), name, ranked=ranked, named=named, page=leaf)


def values(site: Site, run: OpenedRun, query: PairsQuery) -> dict[str, Any]:
    """A page of pairs; pairs that cannot be read are a sentence, and the other tabs stay."""
    try:
        return {"wanted": query, "problem": "", "pairs": run_pairs(
            site, run.name, ranked=query.ranked, named=query.named, leaf=query.leaf)}
    except RecordError as error:
        return {"wanted": query, "pairs": None, "problem": str(error)}


TAB = Tab(key="pairs", title="Pairs", position=13, query=PairsQuery, values=values, answer=run_pairs,
          shown=lambda run: run.trained and (run.path / REFERENCE_LOG_PROBS).is_file())
