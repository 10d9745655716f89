"""Everything that the page shows about one run, read from its files."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from pydantic import BaseModel, Field

from workings.errors import RecordError
from workings.record.layout import (
    CONFIG,
    DEVICE_CHECKS,
    ENVIRONMENT,
    EVALUATION_SUMMARY,
    EVENTS,
    LOG,
    MANIFEST,
    MEASURED,
    OVERRIDES,
    PARTIAL_SUFFIX,
    PLAN,
    RECIPE,
    SUMS,
)
from workings.record.memory_use import MemoryUse, memory_use
from workings.record.seal import root_digest
from workings.record.storage import open_plain
from workings.ui.answers import units_of
from workings.ui.folder import MAX_PARSED_BYTES, Folder

# Only the end of a log: a log of a week has megabytes.
LOG_CHARS = 20_000
T = TypeVar("T")
NO_LINES: list[dict[str, Any]] = []
MAX_EVENTS = 2_000
"""The newest of them; a run has some dozens."""


class MemoryPart(BaseModel):
    """One category of planned memory, in bytes per device."""

    name: str
    size_bytes: int


class DeviceMemory(BaseModel):
    """Memory of a device: planned before launch, measured afterwards. Bytes per device."""

    planned_bytes: int | None = None
    planned_source: str = ""
    limit_bytes: int | None = None
    measured_bytes: int | None = None
    measured_source: str = ""
    resident_bytes: int | None = Field(default=None, description="Of the whole process, if the device reports none")
    parts: list[MemoryPart] = []


class RunEvaluation(BaseModel):
    """An evaluation of the run."""

    name: str
    summary: dict[str, Any]


class Detail(BaseModel):
    """One run. Values that the record lacks are left out or state the reason."""

    manifest: dict[str, Any] = {}
    config: dict[str, Any] = {}
    overrides: list[str] = []
    recipe_text: str = ""
    environment: dict[str, Any] = {}
    device_checks: dict[str, Any] = {}
    memory: DeviceMemory = DeviceMemory()
    evaluations: list[RunEvaluation] = []
    events: list[dict[str, Any]] = []
    log: str = ""
    root_digest: str = ""
    notes: list[str] = Field(default=[], description="Parts of the record that could not be read")


class _RunReader:
    """Reads files of a run for one page; an unreadable file becomes a note and hides nothing else."""

    def __init__(self, folder: Folder, run: Path) -> None:
        self.folder = folder
        self.run = run
        self.notes: list[str] = []
        self._parsed_bytes = 0

    def read(self, path: Path) -> dict[str, Any]:
        """The object in a file. Raises `RecordError`."""
        needed, _ = self.folder.weighed(path)
        self._parsed_bytes += needed
        # All parts share one page, and a record may hold thousands of evaluations.
        if self._parsed_bytes > MAX_PARSED_BYTES:
            raise RecordError(f"{path.relative_to(self.run).as_posix()} is left out: it has more values than a page "
                              "shows")
        return self.folder.object(path)

    def part(self, name: str) -> dict[str, Any]:
        """The object in a file of the run, or an empty one and a note."""
        try:
            return self.read(self.run / name)
        except RecordError as error:
            # A running run does not have all its files yet, which is no damage.
            if (self.run / name).exists() or not self.run.name.endswith(PARTIAL_SUFFIX):
                self.notes.append(str(error))
            return {}

    def part_if_present(self, name: str) -> dict[str, Any]:
        """The object in a file, or an empty one; a file that does not exist is not noted."""
        return self.part(name) if (self.run / name).is_file() else {}

    def attempt(self, make: Callable[[], T], default: T) -> T:
        """The result of ``make``, or the default and a note."""
        try:
            return make()
        except RecordError as error:
            self.notes.append(str(error))
            return default

    def evaluations(self) -> list[RunEvaluation]:
        """All evaluations of the run whose summary can be read."""
        evaluations = []
        for name, path in units_of(self.run).items():
            try:
                evaluations.append(RunEvaluation(name=name, summary=self.read(path / EVALUATION_SUMMARY)))
            except RecordError as error:
                self.notes.append(f"evaluation {name}: {error}")
        return evaluations

    def memory(self, *, finished: bool) -> DeviceMemory:
        """Planned and measured memory."""
        plan, measured = self.part_if_present(PLAN), self.part_if_present(MEASURED)
        lines = self.attempt(lambda: self.folder.metrics(self.run), NO_LINES)
        # While it runs, the last metrics line has the peak so far.
        last_line = None if finished or not lines else lines[-1]
        use = self.attempt(lambda: memory_use(plan, measured, last_line) if plan and measured else None, None)
        return _memory(plan, use)


def read_detail(folder: Folder, run: Path) -> Detail:
    """Read a run; a part that is missing or damaged becomes a note and hides nothing else."""
    reader = _RunReader(folder, run)
    is_run = (run / CONFIG).is_file() or (run / MANIFEST).is_file()
    # The manifest is written when a run is sealed.
    manifest = reader.part(MANIFEST) if is_run and not run.name.endswith(PARTIAL_SUFFIX) else {}
    evaluations = reader.evaluations()
    overrides = reader.part(OVERRIDES).get("overrides", []) if is_run else []
    memory = reader.memory(finished=bool(manifest))
    return Detail(
        manifest=manifest, config=reader.part(CONFIG) if is_run else {}, notes=reader.notes, evaluations=evaluations,
        overrides=[str(word) for word in overrides] if isinstance(overrides, list) else [],
        recipe_text=_text(run / RECIPE), environment=reader.part(ENVIRONMENT) if is_run else {},
        device_checks=reader.part(DEVICE_CHECKS) if is_run else {}, memory=memory,
        events=reader.attempt(lambda: folder.tail(run / EVENTS).lines()[-MAX_EVENTS:], NO_LINES) if is_run else [],
        log=_text(run / LOG),
        root_digest=reader.attempt(lambda: root_digest(run), "") if (run / SUMS).is_file() else "")


def _memory(plan: dict[str, Any], use: MemoryUse | None) -> DeviceMemory:
    return DeviceMemory(planned_bytes=plan.get("peak_bytes"), planned_source=str(plan.get("source", "")),
                        limit_bytes=plan.get("limit_bytes"), parts=_parts(plan),
                        measured_bytes=use.taken_bytes if use else None,
                        measured_source=use.taken_words if use else "",
                        resident_bytes=use.held_bytes if use and not use.device_counts else None)


def _parts(plan: dict[str, Any]) -> list[MemoryPart]:
    """Categories that add up to the peak; a plan without categories counted the program's buffers."""
    if named := plan.get("parts"):
        return [MemoryPart(name=part["name"], size_bytes=part["size_bytes"]) for part in named if part["size_bytes"]]
    breakdown = plan.get("breakdown", {})
    sizes = {name: breakdown.get(name, 0) for name in ("arguments", "temporaries", "outputs", "code")}
    sizes["outputs"] -= breakdown.get("aliased", 0)  # these replace the arguments
    return [MemoryPart(name=name, size_bytes=size) for name, size in sizes.items() if size > 0]


def _text(path: Path) -> str:
    """The end of a text file, at most `LOG_CHARS`; empty if the file is missing. Links are not followed."""
    try:
        file = open_plain(path)
    except RecordError:
        return ""
    with file:
        # Seeking may land inside a character; the decoder replaces the rest of it.
        file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_CHARS))
        return file.read(LOG_CHARS).decode("utf-8", "replace")
