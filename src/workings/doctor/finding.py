"""A finding of the doctor: what is so, why it matters, and what fixes it."""

from dataclasses import dataclass
from typing import Any, Literal

Judgement = Literal["fine", "note", "problem", "not checked"]
"""``problem``: a run would suffer, and `doctor` exits with 1. ``note``: worth knowing, but stops nothing."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What the doctor found about one subject."""

    id: str
    """Subject, dotted: ``kernel.jax``, ``driver``, ``space.disk``, …"""
    judgement: Judgement
    what: str
    why: str
    mend: str = ""
    """A command that fixes it; empty if nothing is wrong."""

    def to_json(self) -> dict[str, Any]:
        """The finding as a JSON value."""
        values = {"id": self.id, "judgement": self.judgement, "what": self.what, "why": self.why}
        return values | {"mend": self.mend} if self.mend else values

    def lines(self) -> list[str]:
        """The finding as lines of text for the terminal."""
        mark = {"fine": "ok", "note": "note", "problem": "WRONG", "not checked": "?"}[self.judgement]
        lines = [f"{mark:<6} {self.id:<20} {self.what}"]
        if self.judgement in ("problem", "note"):
            lines.append(f"{'':<27} why: {self.why}")
        if self.mend:
            lines.append(f"{'':<27} try: {self.mend}")
        return lines
