"""What the doctor says: one finding a subject, with what it is, why it matters and what mends it."""

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
    """What was seen."""
    why: str
    """Why it matters."""
    mend: str = ""
    """The exact command that mends it; empty where nothing is to be mended."""

    def to_json(self) -> dict[str, Any]:
        """As a JSON value; a command that does not exist is left out."""
        values = {"id": self.id, "judgement": self.judgement, "what": self.what, "why": self.why}
        return values | {"mend": self.mend} if self.mend else values

    def lines(self) -> list[str]:
        """For people."""
        mark = {"fine": "ok", "note": "note", "problem": "WRONG", "not checked": "?"}[self.judgement]
        lines = [f"{mark:<6} {self.id:<20} {self.what}"]
        if self.judgement in ("problem", "note"):
            lines.append(f"{'':<27} why: {self.why}")
        if self.mend:
            lines.append(f"{'':<27} try: {self.mend}")
        return lines
