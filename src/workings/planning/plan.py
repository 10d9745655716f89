"""The plan of a recipe on a target: verdict, parts, the culprit in one sentence, time, and the nearest plan that fits.

The engine is asked (`workings.engines.base.PlanningEngine`): where it has its programs compiled or traced, the verdict
is ``compiled`` or ``traced``; where nobody answers it is ``estimated`` by formula, and the reasons say why. A run
computes more than its step: completions to learn from, held-out batches and answers to its items are planned as well,
and the verdict is the worst of them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from workings.config.algorithms import Distill, TeacherAlgorithm
from workings.config.recipe import Recipe
from workings.engines.base import (
    EngineRequest,
    Inspection,
    Inspections,
    MeshShape,
    NotInspected,
    PlanningEngine,
    ProgramName,
    ProgramShape,
    ProgramShapes,
)
from workings.engines.hardware_probe import cpu_memory
from workings.engines.registry import find_engine, find_planning_engine, planning_engines
from workings.errors import RequestError
from workings.hardware.catalog import Target
from workings.hardware.device import DeviceFacts
from workings.hardware.memory import gib
from workings.models.batch import Batch, BatchShape
from workings.models.shape import ModelShape
from workings.models.unproven import unproven_sentence
from workings.planning.breakdown import Part, largest_part, split_parts, unexplained_share
from workings.planning.frozen import TEACHER, TeacherModel, teacher_request, with_reference, with_teacher
from workings.planning.inspecting import inspect_programs, not_shallow, refused_parts
from workings.planning.parts import FORMULA_VERSIONS, beside_the_step
from workings.planning.phases import estimated_step
from workings.planning.request import engine_request, longest_batch, planned_mesh, programs_of
from workings.planning.seconds import RunTime, step_seconds
from workings.planning.tensors import host_parts
from workings.planning.verdict import Verdict, judge, notes

__all__ = ["Nearest", "Part", "Plan", "explain", "make_plan"]

MAX_UNEXPLAINED = 0.1
"""Share of the peak above which two shallow models are compiled to explain it."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A verdict with its explanation."""

    recipe: str
    target: str
    verdict: Verdict
    """About the program that needs the most."""
    parts: tuple[Part, ...]
    culprit: str
    """The group of parts that takes the most, as a sentence."""
    step_seconds: float | None
    step_time: str = ""
    """How the seconds of a step are known, as a sentence; empty on a CPU."""
    remarks: tuple[str, ...] = ()
    """What else there is to say, a sentence each."""
    batch: BatchShape
    mesh: MeshShape
    details: dict[str, Any]
    program: ProgramName = "step"
    """Which program needs the most memory."""
    peaks: Mapping[ProgramName, int]
    """Peak bytes per device of every program that was asked about."""
    host_parts: Mapping[str, int] = field(default_factory=dict)
    """Bytes in the host's memory and on no device, by part."""
    time: RunTime | None = None
    nearest: "Nearest | None" = None
    meets_deadline: bool = False
    """Whether a deadline was given and the whole run finishes by it."""
    finishing: tuple[str, ...] = ()
    """Words that make the run finish by a deadline that it would miss."""

    @property
    def reasons(self) -> tuple[str, ...]:
        """Every sentence that explains the plan, the verdict first."""
        return tuple(filter(None, (self.verdict.reasons[0], self.verdict.warning, self.culprit, self.step_time,
                                   *self.remarks)))

    def as_json(self) -> dict[str, Any]:
        """Keys of ``plan --json``; what does not exist is left out."""
        values = self.verdict.as_json() | {
            "reasons": list(self.reasons), "target": self.target, "recipe": self.recipe, "batch": list(self.batch),
            "mesh": self.mesh._asdict(), "program": self.program, "peaks": dict(self.peaks),
            "parts": [vars(part) for part in self.parts], "culprit": self.culprit}
        if self.step_seconds is not None:
            values["step_seconds_estimate"] = self.step_seconds
        if self.time is not None:
            values["time"] = self.time.as_json()
        if self.host_parts:
            values["host_parts"] = dict(self.host_parts)
        if self.nearest is not None:
            values["nearest"] = self.nearest.as_json()
        if self.finishing:
            values["finishing"] = list(self.finishing)
        return values


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The plan that fits and changes least of what was asked."""

    overrides: tuple[str, ...]
    """The difference, as ``key=value`` words."""
    rows: int
    """Of the global batch; that of the plan as asked, unless its rows do not divide among the devices."""
    peak_bytes: int
    limit_bytes: int
    source: str
    tried: tuple[str, ...]
    """Candidates that were compiled and refused before."""

    def as_json(self) -> dict[str, Any]:
        """As a JSON value."""
        return {"overrides": list(self.overrides), "rows": self.rows, "peak_bytes": self.peak_bytes,
                "limit_bytes": self.limit_bytes, "source": self.source, "tried": list(self.tried)}


def make_plan(recipe: Recipe, shape: ModelShape, target: Target, *, explained: bool = True,
              teacher: TeacherModel | None = None) -> Plan:
    """The plan of one recipe as it is.

    Args:
        recipe: what is asked for.
        shape: of its model.
        target: a machine of the catalog.
        explained: compile shallow models too where the peak would stay unexplained.
        teacher: the recipe's; None without one.

    Raises:
        RequestError: what is asked for does not go together.
        WorkingsError: the compiler crashed.
    """
    engine = find_planning_engine(recipe.engine)
    inspects = engine is not None and target.platform in engine.inspected_platforms
    if target.platform == "tpu" and not inspects:
        able = [name for name, other in planning_engines().items() if "tpu" in other.inspected_platforms]
        raise RequestError(f"engine: {recipe.engine} on {target.name}", "the engine that a TPU's compiler is asked for",
                           " or ".join(f"engine={name}" for name in able))
    if target.platform == "cpu":
        fsdp = 1 if recipe.mesh.fsdp == "auto" else recipe.mesh.fsdp
        if fsdp * recipe.mesh.tp > 1:
            raise RequestError(f"mesh.fsdp x mesh.tp = {fsdp} x {recipe.mesh.tp} on cpu", "one device",
                               "mesh.fsdp=1 mesh.tp=1")
    request = replace(engine_request(recipe, shape, target), split_frozen=engine is None or engine.splits_frozen)
    # The target is this machine, so the engine can be opened and asked itself.
    if target.platform == "cpu" and not inspects:
        return _by_its_engine(recipe, request, target)
    mesh = planned_mesh(recipe, target)
    programs = programs_of(recipe, mesh.fsdp)
    asked = engine if inspects else None
    needs = with_reference(request, mesh, _inspect_or_estimate(asked, request, programs, mesh, target))
    if teacher is not None and isinstance(recipe.algorithm, TeacherAlgorithm) and not needs["step"].refused:
        own = teacher_request(request, teacher, recipe.algorithm.teacher_precision)
        said = _inspect_or_estimate(asked, own, {"log_probs": programs["step"]}, mesh, target)["log_probs"]
        needs = with_teacher(request, own, mesh, needs, said, stays=isinstance(recipe.algorithm, Distill))
        programs = {**programs, TEACHER: programs["step"]}
    # A run ends in whichever of its programs needs the most.
    # Of equal peaks the first, which is the step.
    worst = max(needs, key=lambda name: needs[name].peak_bytes)
    difference = None
    # Two more compilations, so they are made only for a refusal that stays unexplained.
    if explained and engine is not None and worst == "step" and needs[worst].refused:
        parts = split_parts(request, programs["step"], mesh, target.platform, needs[worst])
        if unexplained_share(parts, needs[worst].peak_bytes) > MAX_UNEXPLAINED:
            difference = refused_parts(engine, request, programs["step"], target)
    device = device_of(target, needs[worst], mesh, engine)
    return explain(recipe, request, programs[worst], needs[worst], device, target,
                   program=worst, peaks={name: one.peak_bytes for name, one in needs.items()}, difference=difference)


def _inspect_or_estimate(engine: PlanningEngine | None, request: EngineRequest, programs: ProgramShapes,
                         mesh: MeshShape, target: Target) -> Inspections:
    """What the engine, or else the formula, says about each program of the run.

    Where the step is refused, nothing else is asked: the answer is no already.
    """
    why = ""
    if engine is not None:
        try:
            return inspect_programs(engine, request, programs, target)
        except NotInspected as absent:
            why = str(absent)
    return {name: estimate(request, size, mesh, target, name, why) for name, size in programs.items()}


def _by_its_engine(recipe: Recipe, request: EngineRequest, target: Target) -> Plan:
    """The step by an engine that inspects it itself, on this machine."""
    batch = longest_batch(recipe, 1)
    engine = find_engine(recipe.engine).engine.open(request)
    return explain(recipe, request, batch, engine.inspect(Batch.blank(batch)), engine.describe(), target)


def limit_of(target: Target, engine: PlanningEngine | None) -> tuple[int, str]:
    """Bytes of one device that a run may use, and who says so; ``engine``: None where it says nothing about it."""
    if target.platform == "cpu":
        return cpu_memory()
    return engine.usable_memory(target) if engine is not None else (target.memory_bytes, target.memory_source)


def device_of(target: Target, inspection: Inspection, mesh: MeshShape, engine: PlanningEngine | None
              ) -> DeviceFacts:
    """The target as a device to judge against: what the engine may use of it, or the compiler's own limit.

    Args:
        target: the machine.
        inspection: what was said about the program that needs the most.
        mesh: of the devices.
        engine: that would run there; None where it says nothing about devices that are not here.
    """
    limit, source = limit_of(target, engine)
    # A compiler refuses by its own limit; by any other one the same peak might seem to fit.
    if inspection.limit_bytes:
        limit, source = inspection.limit_bytes, "the compiler"
    return DeviceFacts(
        platform=target.platform, kind=target.kind, count=mesh.devices, memory_limit_bytes=limit,
        memory_limit_source=source, mesh=mesh._asdict(), versions=inspection.versions,
        reason=f"--on {target.name}")


def estimate(request: EngineRequest, batch: ProgramShape, mesh: MeshShape, target: Target,
             program: ProgramName = "step", why: str = "") -> Inspection:
    """A closed-form estimate in the form of an inspection."""
    if program == "step":
        parts = estimated_step(request, batch, *mesh, target.platform)
    else:
        parts = beside_the_step(request, program, batch, *mesh, target.platform)
    return Inspection(peak_bytes=sum(parts.values()), source="estimated", breakdown=parts, versions=FORMULA_VERSIONS,
                      why_estimated=why)


def _waiting(program: ProgramName, parts: tuple[Part, ...]) -> list[str]:
    """What lies in memory during a program that does not take it."""
    waiting = sum(part.size_bytes for part in parts if part.name in ("moments", "master weights"))
    if program == "step" or not waiting:
        return []
    return [f"the optimizer's state stays in memory beside the {program} and is counted: {gib(waiting)}"]


def explain(recipe: Recipe, request: EngineRequest, batch: ProgramShape, inspection: Inspection,
            device: DeviceFacts, target: Target, *, program: ProgramName = "step",
            peaks: Mapping[ProgramName, int] | None = None, difference: Mapping[str, int] | None = None) -> Plan:
    """Put the verdict, its parts and its reasons together.

    Args:
        recipe: what is asked for.
        request: the same, as an engine takes it.
        batch: of the program that needs the most.
        inspection: what was said about that program.
        device: to judge against.
        target: the machine.
        program: which one needs the most.
        peaks: of all programs that were asked about.
        difference: parts of a refused step by two shallow models.
    """
    mesh = MeshShape(device.mesh["fsdp"], device.mesh["tp"])
    verdict = judge(inspection, device)
    # The largest first, whatever order an engine or the cache has them in.
    parts = tuple(sorted(split_parts(request, batch, mesh, target.platform, inspection, program, difference),
                         key=lambda part: (-part.size_bytes, part.name)))
    used = mesh.devices
    culprit = largest_part(parts, used, target.devices, verdict, parameters=request.precision.parameters)
    remarks = []
    peaks = peaks or {program: inspection.peak_bytes}
    if len(peaks) > 1:
        remarks.append(f"decided by the {program}, which needs the most: " + ", ".join(
            f"{name} {gib(peak)}" for name, peak in peaks.items()))
        remarks += _waiting(program, parts)
    elif inspection.refused:
        remarks.append("the run's other programs were not asked about: the step does not fit already")
    if inspection.refused and unexplained_share(parts, inspection.peak_bytes) > MAX_UNEXPLAINED:
        remarks += filter(None, [not_shallow(request.shape)])
    # `batch` belongs to the program that needs the most; rows and time are those of the step.
    step = longest_batch(recipe, mesh.fsdp)
    seconds, how = step_seconds(request, step, target, mesh)
    host = host_parts(request, used)
    remarks += [f"in the host's memory and on no device: {name}, {gib(size)} for {used} process{'es' * (used > 1)}"
                for name, size in host.items()]
    remarks += notes(recipe, target, inspection, batch)
    if not request.shape.proven:
        remarks.append(unproven_sentence(request.shape.family))
    return Plan(recipe=recipe.name, target=target.name, verdict=verdict, parts=parts, culprit=culprit,
                step_seconds=seconds, step_time=how if target.platform != "cpu" else "", remarks=tuple(remarks),
                batch=step, mesh=mesh, details=inspection.facts(), program=program, peaks=peaks, host_parts=host)
