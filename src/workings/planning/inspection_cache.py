"""What an engine says about the programs of a run on a machine that is not here, kept by a digest of what went in.

Answers are looked for in the person's cache, then among those that come with the package (`workings.planning.shipped`).

Of a model that a compiler refuses, two shallow ones are compiled: a step's needs grow in a straight line with layers.
"""

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from workings.engines.base import (
    EngineRequest,
    Inspection,
    Inspections,
    NotInspected,
    PlanningEngine,
    ProgramName,
    ProgramShape,
    ProgramShapes,
)
from workings.hardware import machine
from workings.hardware.catalog import Target
from workings.models.shape import ModelShape
from workings.planning.shipped import shipped_answer
from workings.record.atomic import write_json
from workings.record.digest import json_digest
from workings.record.waiting import waiting

SECONDS = "seconds.json"
"""Beside the kept answers: how long they took."""
MIN_SCANNED_LAYERS = 5
"""Fewest layers that are compiled as a loop; fewer are written out, which is another program."""


def inspect_programs(engine: PlanningEngine, request: EngineRequest, programs: ProgramShapes,
                     target: Target) -> Inspections:
    """What the engine says about each program; only the step where that is refused. From the cache if asked before.

    Raises:
        NotInspected, RequestError, WorkingsError: see `PlanningEngine.inspect_for`.
    """
    places = _places(engine, request, programs, engine.inspection_key(target))
    inspections = _kept(places)
    # The answer is no already: compiling the other programs would take time and change nothing.
    if "step" in inspections and inspections["step"].refused:
        return {"step": inspections["step"]}
    if missing := {name: size for name, size in programs.items() if name not in inspections}:
        kind = f"{engine.name} {target.platform} {request.shape.family} {request.shape.layers} {' '.join(missing)}"
        began = time.monotonic()
        # All in one call, because each call may start a compiler in a process of its own.
        with waiting(f"working out {', '.join(missing)} for {target.name} (engine {engine.name})",
                     _last_durations().get(kind)):
            asked = engine.inspect_for(request, missing, target)
        for name, one in asked.items():
            places[name].parent.mkdir(parents=True, exist_ok=True)
            # Atomic, so that a plan that is killed leaves no torn answer for the next one to read.
            write_json(places[name], asdict(one))
        write_json(cache_directory() / SECONDS, _last_durations() | {kind: round(time.monotonic() - began, 1)})
        inspections |= asked
    return {name: inspections[name] for name in programs if name in inspections}


def cached_inspections(engine: PlanningEngine, request: EngineRequest, programs: ProgramShapes,
                     key: Mapping[str, Any]) -> Inspections:
    """What was said before about these programs and is kept; nothing is asked. Empty without an answer on the step.

    Args:
        engine: whose answers are looked for.
        request, programs: see `inspect_programs`.
        key: of the target (`PlanningEngine.inspection_key`). It is the caller's because it reads the source and the
            versions of libraries, which takes longer than everything else here.
    """
    # The step first: most cells of a table have no answer, and looking for those of all programs takes longer.
    step = _kept(_places(engine, request, {"step": programs["step"]}, key))
    return step and _kept(_places(engine, request, programs, key))


def _places(engine: PlanningEngine, request: EngineRequest, programs: ProgramShapes,
            key: Mapping[str, Any]) -> dict[ProgramName, Path]:
    """Where the answer about each program is kept."""
    return {name: _place(engine.name, request, name, size, key) for name, size in programs.items()}


def _kept(places: Mapping[ProgramName, Path]) -> dict[ProgramName, Inspection]:
    found = {name: _read(place) if place.is_file() else shipped_answer(place.stem) for name, place in places.items()}
    return {name: one for name, one in found.items() if one is not None}


def cache_directory() -> Path:
    """Where verdicts are kept: ``WORKINGS_CACHE``, or the person's cache directory."""
    return machine.cache_directory() / "plans"


def _last_durations() -> dict[str, float]:
    """How long answers took the last time, in seconds, by what was asked."""
    place = cache_directory() / SECONDS
    return json.loads(place.read_text(encoding="utf-8")) if place.is_file() else {}


def _place(engine: str, request: EngineRequest, program: ProgramName, size: ProgramShape,
           key: Mapping[str, Any]) -> Path:
    digest = json_digest({
        "engine": engine, "request": request.to_json(), "program": program, "batch": list(size), "key": dict(key),
        "form": [each.name for each in fields(Inspection)]})  # an answer with other fields is not read
    return cache_directory() / f"{digest}.json"


def _read(place: Path) -> Inspection:
    inspected = Inspection.from_json(json.loads(place.read_text(encoding="utf-8")))
    return replace(inspected, details={**inspected.details, "cached": True})


def shallow_depths(layers: int, pattern: int) -> tuple[int, int]:
    """Two numbers of layers that the engine scans, with whole turns of a pattern of sliding and global layers."""
    turn = max(1, pattern)
    shallow = -(-MIN_SCANNED_LAYERS // turn) * turn
    # The second one at least three layers deeper, in whole turns.
    return shallow, min(layers, shallow + -(-3 // turn) * turn)


def why_no_shallower_model(shape: ModelShape) -> str:
    """Why no shallower model of the same sizes stands for this one, as a sentence; empty where one does."""
    if shape.shared_kv_layers:
        return (f"no shallower model was compiled to explain the rest: {shape.shared_kv_layers} of {shape.layers} "
                "layers use the keys and values of earlier ones, and fewer layers do not keep that share in whole "
                "turns of sliding and global layers")
    if shape.layer_types:
        return "no shallower model was compiled to explain the rest: sliding and global layers follow no pattern"
    if not shape.proven:
        return "no shallower model was compiled to explain the rest: the model is known by its files alone"
    return ""


def line(shallow: tuple[int, float], deeper: tuple[int, float], layers: int) -> int:
    """Where the straight line through two measurements (layers, bytes) is at another number of layers."""
    (first, low), (second, high) = shallow, deeper
    return int(low + (high - low) * (layers - first) / (second - first))


def heap_of_refused_step(engine: PlanningEngine, request: EngineRequest, batch: ProgramShape,
                  target: Target) -> dict[str, int]:
    """What lies in the heap of a step that the compiler refused, from two models of the same sizes with few layers.

    Empty where even those are refused, where the model is no deeper than they are, or where none stands for it
    (`why_no_shallower_model`).
    """
    first, second = shallow_depths(request.shape.layers, request.shape.sliding_pattern)
    if why_no_shallower_model(request.shape) or second <= first or request.shape.layers <= second:
        return {}
    heaps: list[Mapping[str, int]] = []
    for layers in (first, second):
        shallow = replace(request, shape=replace(request.shape, layers=layers))
        try:
            # Kept like any other answer, so the next plan of this model compiles neither.
            heap = inspect_programs(engine, shallow, {"step": batch}, target)["step"].heap
        except NotInspected:
            heap = {}
        if not heap:
            return {}
        heaps.append(heap)
    # Two programs need not be laid out alike, so that a line through them may fall below zero.
    return {name: max(0, line((first, heaps[0].get(name, 0)), (second, heaps[1].get(name, 0)), request.shape.layers))
            for name in {**heaps[0], **heaps[1]}}
