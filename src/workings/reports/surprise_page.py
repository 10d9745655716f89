"""A row whose tokens are shaded by how surprising a model found them, as one HTML file."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp
from pathlib import Path

from markupsafe import Markup

from workings.record import atomic
from workings.record.number_text import percent
from workings.reports.html import render_page

CLASS_PROBABILITIES = (0.5, 0.1, 0.01, 0.0)
"""A token of class 1 is less likely than the first and not than the second, and so on; of class 0 more than all."""
CLASSES = ("expected: 50 % or more", "unsure: 10 to 50 %", "surprising: 1 to 10 %", "very surprising: under 1 %")


@dataclass(frozen=True)
class ShadedToken:
    """One token."""

    text: str
    probability: float | None
    """Probability of the token; None if the row does not train it."""

    @classmethod
    def from_loss(cls, text: str, loss: float | None) -> "ShadedToken":
        """A token with its loss; None where the row does not learn it."""
        return cls(text, None if loss is None else exp(-loss))

    @property
    def level(self) -> int:
        """Class of the token, from 0 (expected) to 3."""
        assert self.probability is not None
        return next(level for level, least in enumerate(CLASS_PROBABILITIES) if self.probability >= least)

    @property
    def said(self) -> str:
        """Probability of the token, in words."""
        if self.probability is None:
            return "not learned"
        return "under 0.1 %" if self.probability < 0.001 else percent(self.probability)


@dataclass(frozen=True, kw_only=True)
class SurprisePage:
    """Values of the page."""

    title: str
    sentence: str
    tokens: Sequence[ShadedToken]
    command: str

    @property
    def counts(self) -> list[tuple[int, str, int]]:
        """Class, what it means, and how many tokens are of it."""
        levels = [token.level for token in self.tokens if token.probability is not None]
        return [(level, name, levels.count(level)) for level, name in enumerate(CLASSES)]


def shaded(page: SurprisePage) -> Markup:
    """The legend, the row and its table, for the page of a run as for the file."""
    return Markup(render_page("shaded.html.jinja", page=page))  # noqa: S704 - escaped by the template


def write_surprise_page(out: Path, page: SurprisePage) -> None:
    """Write the page; one that is there is replaced."""
    out.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(out, render_page("surprise.html.jinja", page=page, shaded=shaded(page)))
