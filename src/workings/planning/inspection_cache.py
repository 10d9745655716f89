"""Cache of memory inspections: compiling the programs of a run takes minutes, and their memory does not change.

Each inspection is a file ``plans/DIGEST.json``. The digest covers everything that decides the inspection: the request,
the program, the machine, the versions of libraries and the engine's own source.
"""

import json
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

from workings.engines import base
from workings.hardware.catalog import Target
from workings.hardware.machine import cache_directory
from workings.record.atomic import write_json
from workings.record.digest import json_digest
from workings.record.progress import slow_operation


def inspect_programs(engine: base.PlanningEngine, request: base.EngineRequest, programs: base.ProgramShapes,
                     target: Target) -> base.Inspections:
    """Inspections of the programs, from the cache or else from the engine; only the step's if the step is refused."""
    key = engine.inspection_key(target)
    paths = {name: _cache_path(engine.name, request, name, size, key) for name, size in programs.items()}
    inspections = {name: base.Inspection.from_json(json.loads(path.read_text("utf-8")))
                   for name, path in paths.items() if path.is_file()}
    if "step" in inspections and inspections["step"].refused:
        return {"step": inspections["step"]}
    if missing := {name: size for name, size in programs.items() if name not in inspections}:
        with slow_operation(f"working out {', '.join(missing)} for {target.name} (engine {engine.name})"):
            answers = engine.inspect_for(request, missing, target)
        for name, inspection in answers.items():
            paths[name].parent.mkdir(parents=True, exist_ok=True)
            write_json(paths[name], asdict(inspection))
        inspections |= answers
    return {name: inspections[name] for name in programs if name in inspections}


def _cache_path(engine: str, request: base.EngineRequest, program: base.ProgramName, size: base.ProgramShape,
                key: Mapping[str, Any]) -> Path:
    digest = json_digest({
        "engine": engine, "request": request.to_json(), "program": program, "batch": list(size), "key": dict(key),
        "form": [field.name for field in fields(base.Inspection)]})  # a file with other fields is not read
    return cache_directory() / "plans" / f"{digest}.json"
