"""Preference pairs that a run learned from: their rows, and what the reference said of each before the first step."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.record import jsonl
from workings.record.layout import REFERENCE_LOG_PROBS, ROWS
from workings.ui.file_cache import FileCache
from workings.ui.requests import paged

PAIRS_A_PAGE = 100
"""Pairs of one page."""
KEPT_RUNS = 4
Ranked = Literal["data", "least", "most"]


class PairRow(BaseModel):
    """One pair."""

    id: str
    chosen_tokens: int
    rejected_tokens: int
    chosen: float | None = Field(default=None, description="Log probability of the chosen completion under the "
                                 "reference, in nats; none where the run did not come to the pair")
    rejected: float | None = Field(default=None, description="That of the rejected one")

    @property
    def margin(self) -> float:
        """Log probability under the reference, chosen minus rejected, in nats; infinite if unknown."""
        return self.chosen - self.rejected if self.chosen is not None and self.rejected is not None else float("inf")


class PairsPage(BaseModel):
    """Pairs of a run, a page of them."""

    run: str
    total: int
    asked: int = Field(description="Pairs of which the reference was asked")
    chosen_likelier: int = Field(description="Pairs whose chosen completion the reference finds likelier")
    found: int
    page: int
    pages: int
    rows: list[PairRow]


@dataclass(frozen=True)
class PairReader:
    """Reads a run's pairs once, until the reference has said more."""

    cache: FileCache = field(default_factory=lambda: FileCache(KEPT_RUNS))

    def rows(self, run: Path) -> list[PairRow]:
        """All pairs, in the order of the data. Raises `RecordError`."""
        return self.cache.get(run / REFERENCE_LOG_PROBS, lambda: _read(run))


def pairs_page(reader: PairReader, run: Path, name: str, *, ranked: Ranked, named: str, page: int) -> PairsPage:
    """Pairs whose id holds a text.

    Raises:
        RecordError: the run's rows or the reference's log probabilities are missing or damaged.
        RequestError: a page that does not exist.
    """
    rows = reader.rows(run)
    chosen_rows = [row for row in rows if named.casefold() in row.id.casefold()]
    if ranked != "data":
        # Those that no one asked about are last either way.
        sorted_rows = sorted((row for row in chosen_rows if row.chosen is not None), key=lambda row: row.margin)
        chosen_rows = (sorted_rows if ranked == "least" else sorted_rows[::-1]) + [row for row in chosen_rows
                                                                                   if row.chosen is None]
    shown, pages = paged(chosen_rows, page, PAIRS_A_PAGE)
    scored_rows = [row for row in rows if row.chosen is not None]
    return PairsPage(run=name, total=len(rows), asked=len(scored_rows), found=len(chosen_rows), page=page, pages=pages,
                     chosen_likelier=sum(row.margin > 0 for row in scored_rows), rows=list(shown))


def _read(run: Path) -> list[PairRow]:
    try:
        log_probs = {str(line["id"]): float(line["log_prob"]) for line in _lines(run / REFERENCE_LOG_PROBS)}
        kept_lines = [line for line in _lines(run / ROWS) if line["status"] == "kept"]
        # Neighbours in the index; of a pair that was dropped neither row is among the kept ones.
        pairs = zip(kept_lines[::2], kept_lines[1::2], strict=True)
        return [PairRow(id=str(chosen["id"]).removesuffix("/chosen"), chosen_tokens=chosen["supervised_tokens"],
                        rejected_tokens=rejected["supervised_tokens"], chosen=log_probs.get(chosen["id"]),
                        rejected=log_probs.get(rejected["id"])) for chosen, rejected in pairs]
    except (OSError, KeyError, TypeError, ValueError) as error:
        raise RecordError(f"these pairs cannot be read: {type(error).__name__}") from error


def _lines(path: Path) -> list[dict[str, Any]]:
    return jsonl.read(path, bounded=True)[0]
