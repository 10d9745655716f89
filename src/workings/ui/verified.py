"""What `workings verify` said about a run, kept by the digest of all its sums."""

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workings.record import atomic
from workings.record.layout import SUMS
from workings.record.values import now
from workings.ui.folder import Folder


class VerifiedCheck(BaseModel):
    """One check."""

    id: str
    level: int
    verdict: str
    text: str


class Verified(BaseModel):
    """The verdict over a run."""

    level: int = Field(description="Highest level reached; -1: not even integrity")
    passed: int
    failed: int
    not_checked: int
    verified_at: str = Field(description="When; what happened to the files afterwards is not known")
    checks: list[VerifiedCheck] = []
    claims: list[str] = []


@dataclass(frozen=True)
class VerifiedStore:
    """Verdicts in the person's cache: `workings verify` itself stays the judge, and a run directory is not touched."""

    place: Path

    def of(self, run: Path) -> Verified | None:
        """The kept verdict about a run as it is now; None where nobody asked, or its sums changed since."""
        path = self._path(run)
        if path is None or not path.is_file():
            return None
        try:
            return Verified(**json.loads(path.read_bytes()))
        # Kept by another version in another form: it is asked for again.
        except (ValueError, TypeError):
            return None

    def keep(self, run: Path, answer: dict[str, Any]) -> None:
        """Keep the answer of ``workings verify RUN --json``."""
        if (path := self._path(run)) is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            atomic.write_text(path, Verified(**answer, verified_at=now()).model_dump_json())

    def all(self, folder: Folder) -> dict[str, Verified]:
        """Kept verdicts by run name."""
        if not self.place.is_dir() or not any(self.place.iterdir()):
            return {}
        return {folder.name(run): kept for run in folder.runs() if (kept := self.of(run)) is not None}

    def _path(self, run: Path) -> Path | None:
        """By the sums of the run and of every unit in it."""
        # Sums are read and not the files, which would take minutes: bytes that were changed under unchanged sums keep
        # the old verdict, so a page shows when it was given.
        sums = [run / SUMS, *sorted(run.glob(f"*/{SUMS}")), *sorted(run.glob(f"*/*/{SUMS}"))]
        if not sums[0].is_file():
            return None
        digest = hashlib.sha256()
        try:
            for path in sums:
                digest.update(hashlib.sha256(path.read_bytes()).digest())
        except OSError:
            return None
        return self.place / f"{digest.hexdigest()}.json"
