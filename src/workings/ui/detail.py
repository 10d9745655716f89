"""Contents of a run's files, for its page."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from workings.errors import RecordError
from workings.record import layout
from workings.record.memory_use import MemoryUse, memory_use
from workings.record.seal import root_digest
from workings.ui.answers import units_of
from workings.ui.folder import MAX_PARSED_BYTES, Folder, end_of_text

LOG_CHARS = 20_000
"""Characters of the end of a log that are shown."""
T = TypeVar("T")
NO_LINES: list[dict[str, Any]] = []
NOTHING: dict[str, Any] = {}
MAX_EVENTS = 2_000
"""Most events that are shown, the newest; a run has some dozens."""


def read_detail(folder: Folder, run: Path) -> dict[str, Any]:
    """The files of a run, by what the page shows. A missing part is empty; a damaged one too, and ``notes`` name it."""
    notes: list[str] = []
    parsed_bytes = 0
    running = run.name.endswith(layout.PARTIAL_SUFFIX)
    is_run = (run / layout.CONFIG).is_file() or (run / layout.MANIFEST).is_file()

    def read(path: Path) -> dict[str, Any]:
        nonlocal parsed_bytes
        parsed = folder.weighed(path)
        parsed_bytes += parsed.memory_bytes
        # A limit for all parts together: a record may hold thousands of evaluations.
        if parsed_bytes > MAX_PARSED_BYTES:
            raise RecordError(f"{path.relative_to(run).as_posix()} is left out: it has more values than a page shows")
        return parsed.value

    def attempt(make: Callable[[], T], default: T, *, about: str = "") -> T:
        try:
            return make()
        except RecordError as error:
            notes.append(f"{about}{error}")
            return default

    def part(name: str, *, optional: bool = False) -> dict[str, Any]:
        # A run that is running does not have all files yet.
        missing = (optional or running) and not (run / name).exists()
        return attempt(lambda: read(run / name), {}) if is_run and not missing else {}

    manifest = part(layout.MANIFEST) if not running else {}
    summaries = {name: attempt(partial(read, path / layout.EVALUATION_SUMMARY), NOTHING, about=f"evaluation {name}: ")
                 for name, path in units_of(run).items()}
    overrides = part(layout.OVERRIDES).get("overrides", [])
    plan, measured = part(layout.PLAN, optional=True), part(layout.MEASURED, optional=True)
    lines = attempt(lambda: folder.metrics(run), NO_LINES)
    # While it runs, the last metrics line has the peak so far.
    last_line = None if manifest or not lines else lines[-1]
    use = attempt(lambda: memory_use(plan, measured, last_line) if plan and measured else None, None)
    return {
        "manifest": manifest, "config": part(layout.CONFIG),
        "overrides": [str(word) for word in overrides] if isinstance(overrides, list) else [],
        "recipe_text": end_of_text(run / layout.RECIPE, LOG_CHARS), "environment": part(layout.ENVIRONMENT),
        "device_checks": part(layout.DEVICE_CHECKS), "memory": _memory(plan, use),
        "evaluations": [{"name": name, "summary": summary} for name, summary in summaries.items() if summary],
        "events": attempt(lambda: folder.lines(run / layout.EVENTS)[-MAX_EVENTS:], NO_LINES) if is_run else [],
        "log": end_of_text(run / layout.LOG, LOG_CHARS), "notes": notes,
        "root_digest": attempt(lambda: root_digest(run), "") if (run / layout.SUMS).is_file() else ""}


def _memory(plan: dict[str, Any], use: MemoryUse | None) -> dict[str, Any]:
    """Memory of a device in bytes, planned and measured; of the whole process (resident) if the device counts none."""
    return {"planned_bytes": plan.get("peak_bytes"), "planned_source": str(plan.get("source", "")),
            "limit_bytes": plan.get("limit_bytes"),
            "parts": [{key: part[key] for key in ("name", "size_bytes")}
                      for part in plan.get("parts", ()) if part["size_bytes"]],
            "measured_bytes": use.taken_bytes if use else None, "measured_source": use.taken_words if use else "",
            "resident_bytes": use.held_bytes if use and not use.device_counts else None}
