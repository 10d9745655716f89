"""Cache of the verdicts of `workings verify`, each valid until a file of the run changes."""

import contextlib
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.hardware.machine import cache_directory
from workings.record import atomic
from workings.record.layout import SUMS
from workings.record.storage import read_plain
from workings.record.values import now
from workings.ui.folder import Folder


class Verified(BaseModel):
    """The verdict on a run."""

    level: int = Field(description="Highest level reached; -1: not even integrity")
    passed: int
    failed: int
    not_checked: int
    verified_at: str = Field(description="Time of verification")
    checks: list[dict[str, str | int]] = Field(default=[], description="Id, level, verdict and text of each")


@dataclass(frozen=True)
class VerificationCache:
    """Verdicts in a folder of the user's cache."""

    place: Path

    @classmethod
    def here(cls) -> "VerificationCache":
        """The user's cache, shared by the page, the command line and the quickstart."""
        return cls(cache_directory() / "ui" / "verified")

    def get(self, run: Path) -> Verified | None:
        """The cached verdict about a run; None if there is none, or a file has changed since."""
        try:
            return Verified(**json.loads(self._path(self.stamp(run)).read_bytes()))
        except (OSError, ValueError, TypeError):  # not verified, or by another version
            return None

    def keep(self, run: Path, before: str, answer: Mapping[str, Any]) -> None:
        """Store the answer of ``workings verify --json`` on a run, if its `stamp` is still ``before``.

        Without effect for a folder of several runs, if a verdict at a higher level is stored and nothing failed, and if
        the cache cannot be written.
        """
        kept = self.get(run)
        has_better = kept and not answer["failed"] and answer.get("asked_level", kept.level) < kept.level
        if before and self.stamp(run) == before and not has_better:
            checks = [{key: check[key] for key in ("id", "level", "verdict", "text")} for check in answer["checks"]]
            verified = Verified(**{**answer, "checks": checks}, verified_at=now())
            with contextlib.suppress(OSError):
                self.place.mkdir(parents=True, exist_ok=True)
                atomic.write_text(self._path(before), verified.model_dump_json())

    def all(self, folder: Folder) -> dict[str, Verified]:
        """Name of a run -> its cached verdict."""
        if not self.place.is_dir() or not any(self.place.iterdir()):
            return {}
        return {folder.name(run): verdict for run in folder.runs() if (verdict := self.get(run)) is not None}

    def _path(self, stamp: str) -> Path:
        return self.place / f"{stamp}.json"

    def stamp(self, run: Path) -> str:
        """Digest of a run's path, its checksums, and its files' sizes and times; empty if it is not a sealed run."""
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
                                  f"{facts.st_ino}\n".encode(errors="surrogateescape"))
                    if name == SUMS:
                        digest.update(read_plain(path))
        except (OSError, RecordError):
            return ""
        return digest.hexdigest()
