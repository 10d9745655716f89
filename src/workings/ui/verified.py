"""What `workings verify` said about a run, kept for the files that it was said of."""

import hashlib
import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.record import atomic
from workings.record.layout import SUMS
from workings.record.plain import read_plain
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
        """The kept verdict about a run as it is now; None where nobody asked, or a file of it changed since."""
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
        stamp = self.stamp(run)
        return self.place / f"{stamp}.json" if stamp else None

    def stamp(self, run: Path) -> str:
        """Of the run's place, the bytes of its sums, and what the file system says of every file in it; or empty."""
        # Files are not read, which would take minutes. Sums alone would let a run with an honest one's sums and other
        # files take over its verdict: a file that was written, moved or put in another's place since has another
        # number or another time of change, which nobody sets by hand.
        if not (run / SUMS).is_file():
            return ""
        digest = hashlib.sha256(str(run.resolve()).encode())
        try:
            for folder, folders, names in os.walk(run):
                folders.sort()
                for name in sorted(names):
                    path = Path(folder, name)
                    facts = path.lstat()
                    digest.update(f"{path.relative_to(run)} {facts.st_size} {facts.st_mtime_ns} {facts.st_ctime_ns} "
                                  f"{facts.st_ino}\n".encode())
                    if name == SUMS:
                        digest.update(read_plain(path))
        except (OSError, RecordError):
            return ""
        return digest.hexdigest()
