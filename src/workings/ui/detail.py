"""Everything the page shows about one run, read from its files."""

import os
import stat
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
    SAMPLES,
    SUMS,
)
from workings.record.memory_use import MemoryUse, memory_use
from workings.record.plain import open_plain
from workings.record.seal import root_digest
from workings.ui.answers import units_of
from workings.ui.folder import MAX_PARSED_BYTES, Folder
from workings.ui.replays import Replay, read_replays

# The end of a log tells how it stands, and a log of a week would be megabytes in every page.
LOG_CHARS = 20_000
T = TypeVar("T")
NONE: list[dict[str, Any]] = []
EVENTS_SHOWN = 2_000
"""The newest of them; a run has some dozens."""
# A run has some dozens; more is somebody's folder that looks like a run.
FILES = 2_000


class FileRow(BaseModel):
    """A file of the run."""

    path: str
    size_bytes: int
    kind: str = Field(description="file, link or other")


class MemoryPart(BaseModel):
    """One category of the bytes that the plan counted, per device."""

    name: str
    size_bytes: int


class DeviceMemory(BaseModel):
    """What fills a device: planned before launch, measured afterwards. Bytes per device."""

    planned_bytes: int | None = None
    planned_source: str = ""
    limit_bytes: int | None = None
    measured_bytes: int | None = None
    measured_source: str = ""
    resident_bytes: int | None = Field(default=None, description="Of the whole process, where no device counts")
    parts: list[MemoryPart] = []
    reasons: list[str] = []


class RunEvaluation(BaseModel):
    """An evaluation of the run."""

    name: str
    summary: dict[str, Any]


class Detail(BaseModel):
    """One run. Values that a record does not hold are left out or say why."""

    manifest: dict[str, Any] = {}
    config: dict[str, Any] = {}
    overrides: list[str] = []
    recipe_text: str = ""
    environment: dict[str, Any] = {}
    device_checks: dict[str, Any] = {}
    memory: DeviceMemory = DeviceMemory()
    evaluations: list[RunEvaluation] = []
    replays: list[Replay] = []
    samples: str = ""
    events: list[dict[str, Any]] = []
    log: str = ""
    files: list[FileRow] = []
    root_digest: str = ""
    notes: list[str] = Field(default=[], description="Parts of the record that could not be read")


def read_detail(folder: Folder, run: Path) -> Detail:
    """Read a run; a part that is missing or damaged becomes a note and hides nothing else."""
    notes: list[str] = []
    taken = 0

    def read(path: Path) -> dict[str, Any]:
        nonlocal taken
        needed, _ = folder.weighed(path)
        taken += needed
        # All parts stand on one page, and a record may hold thousands of evaluations and replays.
        if taken > MAX_PARSED_BYTES:
            raise RecordError(f"{path.relative_to(run).as_posix()} is left out: more values than a page shows")
        return folder.object(path)

    def part(name: str) -> dict[str, Any]:
        try:
            return read(run / name)
        except RecordError as error:
            # A run that is being written does not have all its files yet, which is no damage.
            if (run / name).exists() or not run.name.endswith(PARTIAL_SUFFIX):
                notes.append(str(error))
            return {}

    def noted(what: Callable[[], T], otherwise: T) -> T:
        try:
            return what()
        except RecordError as error:
            notes.append(str(error))
            return otherwise

    is_run = (run / CONFIG).is_file() or (run / MANIFEST).is_file()
    # The manifest is written when a run is sealed, so an unfinished one is not asked for it.
    manifest = part(MANIFEST) if is_run and not run.name.endswith(PARTIAL_SUFFIX) else {}
    units = []
    for name, place in units_of(run).items():
        try:
            units.append(RunEvaluation(name=name, summary=read(place / EVALUATION_SUMMARY)))
        except RecordError as error:
            notes.append(f"evaluation {name}: {error}")
    overrides = part(OVERRIDES).get("overrides", []) if is_run else []
    measured, lines = part(MEASURED) if (run / MEASURED).is_file() else {}, noted(lambda: folder.metrics(run), NONE)
    # While it runs, the last line of the log has the peak so far.
    use = noted(lambda: memory_use(measured, None if manifest or not lines else lines[-1]) if measured else None, None)
    return Detail(
        manifest=manifest, config=part(CONFIG) if is_run else {}, notes=notes, evaluations=units,
        overrides=[str(word) for word in overrides] if isinstance(overrides, list) else [],
        recipe_text=_text(run / RECIPE), environment=part(ENVIRONMENT) if is_run else {},
        device_checks=part(DEVICE_CHECKS) if is_run else {},
        memory=_memory(part(PLAN) if (run / PLAN).is_file() else {}, use),
        replays=read_replays(read, run, notes), samples=_samples(run),
        events=noted(lambda: folder.tail(run / EVENTS).lines()[-EVENTS_SHOWN:], NONE) if is_run else [],
        log=_text(run / LOG), files=list_files(run),
        root_digest=noted(lambda: root_digest(run), "") if (run / SUMS).is_file() else "")


def _memory(plan: dict[str, Any], use: MemoryUse | None) -> DeviceMemory:
    return DeviceMemory(planned_bytes=plan.get("peak_bytes"), planned_source=str(plan.get("source", "")),
                        limit_bytes=plan.get("limit_bytes"), parts=_parts(plan),
                        reasons=[str(r) for r in plan.get("reasons", [])],
                        measured_bytes=use.taken_bytes if use else None,
                        measured_source=use.taken_words if use else "",
                        resident_bytes=use.held_bytes if use and not use.device_counts else None)


def _parts(plan: dict[str, Any]) -> list[MemoryPart]:
    """Categories whose sum is the peak; a plan that names none counted the program's buffers."""
    if named := plan.get("parts"):
        return [MemoryPart(name=part["name"], size_bytes=part["size_bytes"]) for part in named if part["size_bytes"]]
    breakdown = plan.get("breakdown", {})
    sizes = {name: breakdown.get(name, 0) for name in ("arguments", "temporaries", "outputs", "code")}
    sizes["outputs"] -= breakdown.get("aliased", 0)  # these lie in the arguments' place
    return [MemoryPart(name=name, size_bytes=size) for name, size in sizes.items() if size > 0]


def _samples(run: Path) -> str:
    for place in units_of(run).values():
        if text := _text(place / SAMPLES):
            return text
    return ""


def _text(path: Path) -> str:
    """The end of a text file, at most `LOG_CHARS`; empty where there is none. Links are not followed."""
    try:
        file = open_plain(path)
    except RecordError:
        return ""
    with file:
        # Seeking counts bytes and may land inside a character; the decoder puts a mark in place of the rest of it.
        file.seek(max(0, os.fstat(file.fileno()).st_size - LOG_CHARS))
        return file.read(LOG_CHARS).decode("utf-8", "replace")


def list_files(run: Path) -> list[FileRow]:
    """Files of a run, at most `FILES`, links not followed."""
    rows: list[FileRow] = []
    # Sorting the folders in place decides in which order `walk` enters them, so the list is the same each time.
    for place, folders, names in os.walk(run):
        folders.sort()
        for name in sorted(names):
            if len(rows) == FILES:
                return rows
            path = Path(place, name)
            state = path.lstat()
            kind = "file" if stat.S_ISREG(state.st_mode) else "link" if stat.S_ISLNK(state.st_mode) else "other"
            rows.append(FileRow(path=path.relative_to(run).as_posix(), size_bytes=state.st_size, kind=kind))
    return rows
