"""Findings of the doctor: one a subject, with its cause, why it matters and what fixes it."""

from dataclasses import dataclass
from typing import Any, Literal

Judgement = Literal["fine", "note", "problem", "not checked"]
"""``problem``: something that matters is wrong, and `doctor` exits with 1. ``note``: worth knowing, stops nothing."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One subject."""

    id: str
    """Subject, dotted: ``kernel.jax``, ``driver``, ``space.disk``, …"""
    judgement: Judgement
    what: str
    why: str
    mend: str = ""
    """The exact command that mends it; empty where nothing is to be mended."""

    def to_json(self) -> dict[str, Any]:
        """A JSON value; a missing command is left out."""
        values = {"id": self.id, "judgement": self.judgement, "what": self.what, "why": self.why}
        return values | {"mend": self.mend} if self.mend else values

    def lines(self) -> list[str]:
        """The finding as lines of text."""
        mark = {"fine": "ok", "note": "note", "problem": "WRONG", "not checked": "?"}[self.judgement]
        lines = [f"{mark:<6} {self.id:<20} {self.what}"]
        if self.judgement in ("problem", "note"):
            lines.append(f"{'':<27} why: {self.why}")
        if self.mend:
            lines.append(f"{'':<27} try: {self.mend}")
        return lines
