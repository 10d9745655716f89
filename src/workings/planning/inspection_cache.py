"""Cached memory inspections of the programs of a run on a target machine.

An engine's ahead-of-time compiler is asked for the memory of each program; its answers are cached by a digest of the
request. The user's cache is searched first, then the answers that come with the package: one generated file
(`python -m tools.ship_plans`) has inspections of the shipped recipes, each under the digest of everything that decided
it: the request, the machine, the versions of libraries and the engine's own source. If one of these differs here, the
digest differs too, and the program is compiled as if there were no file.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from workings.engines.base import (
    EngineRequest,
    Inspection,
    Inspections,
    PlanningEngine,
    ProgramName,
    ProgramShape,
    ProgramShapes,
)
from workings.hardware import machine
from workings.hardware.catalog import Target
from workings.record.atomic import write_json
from workings.record.digest import json_digest
from workings.record.progress import slow_operation

SHIPPED_FILE = "shipped_plans.json"
"""File in the folder of this module."""


@cache
def shipped_plans() -> dict[str, dict[str, Any]]:
    """Entries of the file by digest: ``plan``, the recipe and machine that it was made for, and ``answer``."""
    return json.loads((files("workings.planning") / SHIPPED_FILE).read_text(encoding="utf-8"))


def shipped_answer(digest: str) -> Inspection | None:
    """The inspection under this digest, with a note about its origin; None if there is no such entry."""
    entry = shipped_plans().get(digest)
    if entry is None:
        return None
    inspection = Inspection.from_json(entry["answer"])
    note = (f"{inspection.source} beforehand and shipped with this package, by the same source of the engine and the "
            "same versions of libraries as here; nothing was compiled now")
    return replace(inspection, notes=(*inspection.notes, note))




def inspect_programs(engine: PlanningEngine, request: EngineRequest, programs: ProgramShapes,
                     target: Target) -> Inspections:
    """Inspections of the programs, cached if they were made before; only that of the step if it is refused.

    Raises:
        NotInspected, RequestError, WorkingsError: see `PlanningEngine.inspect_for`.
    """
    paths = _cache_paths(engine, request, programs, engine.inspection_key(target))
    inspections = _cached(paths)
    # Compiling the other programs would take time and not change the answer.
    if "step" in inspections and inspections["step"].refused:
        return {"step": inspections["step"]}
    if missing := {name: size for name, size in programs.items() if name not in inspections}:
        # All in one call, because each call may start a compiler in its own process.
        with slow_operation(f"working out {', '.join(missing)} for {target.name} (engine {engine.name})"):
            answers = engine.inspect_for(request, missing, target)
        for name, inspection in answers.items():
            paths[name].parent.mkdir(parents=True, exist_ok=True)
            # Atomic, so that a killed plan does not leave a half-written answer.
            write_json(paths[name], asdict(inspection))
        inspections |= answers
    return {name: inspections[name] for name in programs if name in inspections}


def cached_inspections(engine: PlanningEngine, request: EngineRequest, programs: ProgramShapes,
                     key: Mapping[str, Any]) -> Inspections:
    """Cached inspections of these programs, without asking the engine; empty without one of the step.

    Args:
        engine: that made them.
        request, programs: see `inspect_programs`.
        key: of the target (`PlanningEngine.inspection_key`). The caller makes it, because it reads the source and the
            versions of libraries, which takes longer than everything else here.
    """
    # The step first: most cells of a table are not cached, and searching for all programs takes longer.
    step = _cached(_cache_paths(engine, request, {"step": programs["step"]}, key))
    return step and _cached(_cache_paths(engine, request, programs, key))


def _cache_paths(engine: PlanningEngine, request: EngineRequest, programs: ProgramShapes,
                 key: Mapping[str, Any]) -> dict[ProgramName, Path]:
    """The file of each program's inspection in the cache."""
    return {name: _cache_path(engine.name, request, name, size, key) for name, size in programs.items()}


def _cached(paths: Mapping[ProgramName, Path]) -> dict[ProgramName, Inspection]:
    inspections = {name: _read(path) if path.is_file() else shipped_answer(path.stem) for name, path in paths.items()}
    return {name: inspection for name, inspection in inspections.items() if inspection is not None}


def cache_directory() -> Path:
    """The cache of inspections: below ``WORKINGS_CACHE``, or below the user's cache directory."""
    return machine.cache_directory() / "plans"


def _cache_path(engine: str, request: EngineRequest, program: ProgramName, size: ProgramShape,
                key: Mapping[str, Any]) -> Path:
    digest = json_digest({
        "engine": engine, "request": request.to_json(), "program": program, "batch": list(size), "key": dict(key),
        "form": [field.name for field in fields(Inspection)]})  # an answer with other fields is not read
    return cache_directory() / f"{digest}.json"


def _read(path: Path) -> Inspection:
    return Inspection.from_json(json.loads(path.read_text(encoding="utf-8")))
