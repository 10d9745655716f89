"""The plan of a recipe on a target: whether it fits, how the memory is used, and how long a step takes.

A planning engine (`workings.engines.base.PlanningEngine`) compiles or traces the programs of a run for the target; the
source of the verdict is then ``compiled`` or ``traced``. Otherwise formulas estimate them, the source is ``estimated``,
and the reasons say why. The program that needs the most memory decides: the step, a rollout, a held-out batch or the
answers to items.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from workings.config.recipe import Recipe
from workings.engines.base import Inspection, Inspections, MeshShape, NotInspected, PlanningEngine, ProgramName
from workings.engines.registry import find_engine, find_planning_engine, planning_engines
from workings.errors import RequestError
from workings.hardware.catalog import Target
from workings.hardware.device import DeviceFacts
from workings.hardware.memory import gib
from workings.models.batch import Batch, BatchShape
from workings.models.shape import ModelShape
from workings.models.unverified import unverified_sentence
from workings.planning.breakdown import Part, largest_part_sentence, split_parts
from workings.planning.forward_memory import forward_program_parts
from workings.planning.further_memory import next_to_sampler, sampler_parts, with_frozen_models
from workings.planning.inspection_cache import inspect_programs
from workings.planning.memory_formulas import FORMULA_VERSIONS, exact_parts, host_parts
from workings.planning.planned_run import PlannedRun, longest_batch, target_memory_limit
from workings.planning.run_time import RunTime, step_seconds
from workings.planning.step_memory import largest_phase_parts
from workings.planning.verdict import Verdict, memory_verdict, verdict_remarks
from workings.ways.parts.teacher import TeacherModel


@dataclass(frozen=True, kw_only=True)
class Nearest:
    """The plan that fits and changes the requested one the least."""

    overrides: tuple[str, ...]
    """The changes, as ``key=value`` words."""
    rows: int
    """Rows of the global batch: the requested number, unless the devices cannot share it evenly."""
    peak_bytes: int
    limit_bytes: int
    source: str


@dataclass(frozen=True, kw_only=True)
class Plan:
    """A verdict with its explanation."""

    recipe: str
    target: str
    verdict: Verdict
    """Verdict on the program that needs the most memory."""
    parts: tuple[Part, ...]
    largest_part: str
    """The largest group of parts, as a sentence."""
    step_seconds: float | None
    step_time: str = ""
    """A sentence that explains ``step_seconds``; empty on a CPU."""
    remarks: tuple[str, ...] = ()
    """Further sentences."""
    batch: BatchShape
    mesh: MeshShape
    program: ProgramName = "step"
    """The program that needs the most memory."""
    inspection: Inspection
    """Inspection of ``program``."""
    peaks: Mapping[ProgramName, int]
    """Peak bytes per device of every inspected program."""
    host_parts: Mapping[str, int] = field(default_factory=dict)
    """Bytes that are in the host's memory and on no device, by part."""
    sampler_parts: Mapping[str, int] = field(default_factory=dict)
    """Bytes of the device that a sampler takes in its own process, by part."""
    time: RunTime | None = None
    nearest: Nearest | None = None

    @property
    def reasons(self) -> tuple[str, ...]:
        """All sentences that explain the plan, the verdict first."""
        return tuple(filter(None, (*self.verdict.reasons, self.largest_part, self.step_time, *self.remarks)))

    def to_json(self) -> dict[str, Any]:
        """Keys of ``plan --json``; unknown values are left out."""
        values = self.verdict.to_json() | {
            "reasons": list(self.reasons), "target": self.target, "recipe": self.recipe, "batch": list(self.batch),
            "mesh": self.mesh.axes(), "program": self.program, "peaks": dict(self.peaks),
            "parts": [vars(part) for part in self.parts], "culprit": self.largest_part}
        optional = {"step_seconds_estimate": self.step_seconds, "time": self.time.to_json() if self.time else None,
                    "host_parts": dict(self.host_parts), "sampler_parts": dict(self.sampler_parts),
                    "nearest": asdict(self.nearest) if self.nearest else None}
        return values | {key: value for key, value in optional.items() if value}


def make_plan(recipe: Recipe, shape: ModelShape, target: Target, *, teacher: TeacherModel | None = None) -> Plan:
    """The plan of a recipe as it is, without a search; ``teacher``: the model of the recipe's teacher, if it has one.

    Raises `RequestError` if recipe, model and target do not go together, `WorkingsError` if the compiler crashed.
    """
    engine = find_planning_engine(recipe.engine)
    inspects = engine is not None and target.platform in engine.inspected_platforms
    if target.platform == "tpu" and not inspects:
        able = [name for name, other in planning_engines().items() if "tpu" in other.inspected_platforms]
        raise RequestError(f"engine: {recipe.engine} cannot plan for {target.name}",
                           "an engine that can ask the TPU's compiler",
                           " or ".join(f"engine={name}" for name in able))
    run = PlannedRun.on_target(recipe, shape, target, engine)
    # The target is this machine: the engine is opened and inspects the step that it would run here.
    if target.platform == "cpu" and not inspects:
        opened = find_engine(recipe.engine).engine.open(run.request)
        return plan_from_inspection(run, opened.inspect(Batch.blank(run.step)), opened.describe())
    asked_engine = engine if inspects else None
    inspections = with_frozen_models(
        run, _inspect_or_estimate(asked_engine, run), teacher,
        inspect=lambda teacher_run: _inspect_or_estimate(asked_engine, teacher_run)["log_probs"])
    peaks = {name: inspection.peak_bytes for name, inspection in inspections.items()}
    largest = max(peaks, key=lambda name: peaks[name])
    device = target_device(target, inspections[largest], run.mesh, engine)
    return plan_from_inspection(run, inspections[largest], device, program=largest, peaks=peaks)


def _inspect_or_estimate(engine: PlanningEngine | None, run: PlannedRun) -> Inspections:
    """Inspections of the run's programs by the engine, else by formula; after a refused step, only that of the step."""
    why_estimated = ""
    if engine is not None:
        try:
            return inspect_programs(engine, run.request, run.programs, run.target)
        except NotInspected as error:
            why_estimated = str(error)
    # Compiled and estimated peaks are never mixed: they cannot be compared.
    return {name: estimate(run, name, why_estimated) for name in run.programs}


def target_device(target: Target, inspection: Inspection, mesh: MeshShape, engine: PlanningEngine | None
              ) -> DeviceFacts:
    """The target as a device, with the memory that the engine may use, or with the compiler's own limit.

    ``inspection``: of the program that needs the most memory; ``engine``: None if it cannot plan.
    """
    # By another limit than the compiler's, a program that it refused might seem to fit.
    if inspection.limit_bytes:
        limit, source = inspection.limit_bytes, "the compiler"
    else:
        limit, source = target_memory_limit(target, engine)
    return DeviceFacts(
        platform=target.platform, kind=target.kind, count=mesh.devices, memory_limit_bytes=limit,
        memory_limit_source=source, mesh=mesh.axes(), versions=inspection.versions, reason=f"--on {target.name}")


def estimate(run: PlannedRun, program: ProgramName = "step", why: str = "") -> Inspection:
    """An inspection of one program by formula; ``why``: the reason why no engine inspects it, as a clause."""
    request, platform, mesh = run.request, run.target.platform, run.mesh.of_a_copy
    share = run.mesh.share_of_a_copy(run.largest_shape(program))
    if program == "step":
        parts = exact_parts(request, share, *mesh) | largest_phase_parts(request, share, *mesh, platform)
    else:
        parts = forward_program_parts(request, program, share, *mesh, platform, run.device_bytes)
    return Inspection(peak_bytes=sum(parts.values()), source="estimated", breakdown=parts, versions=FORMULA_VERSIONS,
                      why_estimated=why)


def plan_from_inspection(run: PlannedRun, inspection: Inspection, device: DeviceFacts, *,
                         program: ProgramName = "step", peaks: Mapping[ProgramName, int] | None = None) -> Plan:
    """The plan of a run from the inspection of the ``program`` that needs the most memory.

    The memory limit of ``device`` decides whether it fits. ``peaks``: peak bytes of all inspected programs.
    """
    recipe, request, target, mesh = run.recipe, run.request, run.target, run.mesh
    sampler = sampler_parts(recipe, request.shape, device)
    verdict = memory_verdict(inspection, next_to_sampler(device, sampler))
    parts = tuple(sorted(split_parts(run, program, inspection), key=lambda part: (-part.size_bytes, part.name)))
    remarks = []
    all_peaks = peaks or {program: inspection.peak_bytes}
    if len(all_peaks) > 1:
        remarks.append(f"decided by the {program}, which needs the most: " + ", ".join(
            f"{name} {gib(peak)}" for name, peak in all_peaks.items()))
    step = longest_batch(recipe, mesh.row_devices)
    seconds, how = step_seconds(request, step, target, mesh)
    host = host_parts(request, mesh.devices)
    processes = f"{mesh.devices} process{'es' if mesh.devices > 1 else ''}"
    remarks += [f"in the host's memory and on no device: {name}, {gib(size)} for {processes}"
                for name, size in host.items()]
    remarks += verdict_remarks(recipe, target, inspection)
    if not request.shape.verified:
        remarks.append(unverified_sentence(request.shape.family))
    return Plan(recipe=recipe.name, target=target.name, verdict=verdict, parts=parts,
                largest_part=largest_part_sentence(parts, mesh.devices, target.devices, verdict),
                step_seconds=seconds, step_time=how if target.platform != "cpu" else "", remarks=tuple(remarks),
                batch=step, mesh=mesh, inspection=inspection, program=program, peaks=all_peaks, host_parts=host,
                sampler_parts=sampler)
