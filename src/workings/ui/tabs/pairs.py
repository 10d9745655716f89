"""Preference pairs that a run learned from, with the reference's log probabilities before the first step."""

from pathlib import Path
from typing import Annotated, Any, Literal

from fastapi import Query
from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.record import jsonl
from workings.record.layout import REFERENCE_LOG_PROBS, ROWS
from workings.ui.requests import paged
from workings.ui.site import Site
from workings.ui.tab import OpenedRun, Tab

PAIRS_A_PAGE = 100
"""Pairs of one page."""
Ranked = Literal["data", "least", "most"]


class PairRow(BaseModel):
    """One pair."""

    id: str
    chosen_tokens: int
    rejected_tokens: int
    chosen: float | None = Field(default=None, description="Log probability of the chosen completion under the "
                                 "reference, in nats; none if the run did not reach the pair")
    rejected: float | None = Field(default=None, description="That of the rejected one")

    @property
    def margin(self) -> float:
        """Log probability under the reference, chosen minus rejected, in nats; infinite if unknown."""
        return self.chosen - self.rejected if self.chosen is not None and self.rejected is not None else float("inf")


class PairsPage(BaseModel):
    """Pairs of a run, a page of them."""

    run: str
    total: int
    asked: int = Field(description="Pairs that the reference scored")
    chosen_likelier: int = Field(description="Pairs whose chosen completion the reference finds likelier")
    found: int
    page: int
    pages: int
    rows: list[PairRow]


class PairsQuery(BaseModel):
    """Filters and order of the pairs on the page."""

    ranked: Ranked = "data"
    named: str = Field(default="", max_length=500)
    leaf: int = Field(default=1, description="Page of pairs, from 1")


def run_pairs(site: Site, name: str, query: Annotated[PairsQuery, Query()]) -> PairsPage:
    """Pairs of a run whose id holds a text, 100 a page.

    ``ranked`` `least`: first the pairs whose chosen completion the reference finds least likely relative to the
    rejected one.
    """
    run = site.folder.path(name)
    rows = site.folder.worked_out.get(run / REFERENCE_LOG_PROBS, lambda: _read(run))
    chosen_rows = [row for row in rows if query.named.casefold() in row.id.casefold()]
    if query.ranked != "data":
        # Unscored pairs are last in any order.
        sorted_rows = sorted((row for row in chosen_rows if row.chosen is not None), key=lambda row: row.margin)
        chosen_rows = (sorted_rows if query.ranked == "least" else sorted_rows[::-1]) + [row for row in chosen_rows
                                                                                   if row.chosen is None]
    shown, pages = paged(chosen_rows, query.leaf, PAIRS_A_PAGE)
    scored_rows = [row for row in rows if row.chosen is not None]
    return PairsPage(run=name, total=len(rows), asked=len(scored_rows), found=len(chosen_rows), page=query.leaf,
                     pages=pages, chosen_likelier=sum(row.margin > 0 for row in scored_rows), rows=list(shown))


def _read(run: Path) -> list[PairRow]:
    try:
        log_probs = {str(line["id"]): float(line["log_prob"]) for line in _lines(run / REFERENCE_LOG_PROBS)}
        kept_lines = [line for line in _lines(run / ROWS) if line["status"] == "kept"]
        # Neighbours in the index; a dropped pair has no row.
        pairs = zip(kept_lines[::2], kept_lines[1::2], strict=True)
        return [PairRow(id=str(chosen["id"]).removesuffix("/chosen"), chosen_tokens=chosen["supervised_tokens"],
                        rejected_tokens=rejected["supervised_tokens"], chosen=log_probs.get(chosen["id"]),
                        rejected=log_probs.get(rejected["id"])) for chosen, rejected in pairs]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"these pairs cannot be read: {type(error).__name__}") from error


def _lines(path: Path) -> list[dict[str, Any]]:
    return jsonl.read(path, bounded=True)[0]


def values(site: Site, run: OpenedRun, query: PairsQuery) -> dict[str, Any]:
    """A page of pairs; unreadable pairs become a sentence."""
    try:
        return {"wanted": query, "problem": "", "pairs": run_pairs(site, run.name, query)}
    except RecordError as error:
        return {"wanted": query, "pairs": None, "problem": str(error)}


TAB = Tab(key="pairs", title="Pairs", position=13, group="Training", query=PairsQuery, values=values, answer=run_pairs,
          shown=lambda run: run.trained and (run.path / REFERENCE_LOG_PROBS).is_file())
