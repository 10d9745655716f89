"""Memory of frozen models next to the trained one: the reference model (the first weights), or a teacher."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from workings.engines.base import EngineRequest, Inspection, Inspections, MeshShape, ProgramName
from workings.models.batch import BatchShape
from workings.planning.memory_formulas import FORMULA_VERSIONS, exact_parts, forward_program_parts
from workings.planning.planned_run import PlannedRun
from workings.planning.tensors import PER_LAYER_TABLE
from workings.ways.base import way_of
from workings.ways.parts.teacher import TeacherModel, teacher_request

REFERENCE = "reference model"
"""Part of the memory: the first weights."""
TEACHER: ProgramName = "teacher"
"""Part of the memory: the teacher's weights. Also the program that computes its log probabilities."""
STATE_PARTS = ("parameters", PER_LAYER_TABLE, "moments", "master weights")
"""Parts of the memory that a trained model keeps between steps."""


def with_frozen_models(run: PlannedRun, inspections: Inspections, teacher: TeacherModel | None,
                       inspect: Callable[[PlannedRun], Inspection]) -> Inspections:
    """Adds the recipe's frozen models to the inspections of a run's programs, and the program of its teacher.

    Args:
        run: the student's run.
        inspections: of its programs.
        teacher: the recipe's; None without one.
        inspect: inspects ``log_probs``, the only program of the run that it gets, whose request is the teacher's.
    """
    inspections = with_reference(run.request, run.mesh, inspections)
    way = way_of(run.recipe)
    # A refused step is the answer already.
    if teacher is None or way.teacher_keys is None or inspections["step"].refused:
        return inspections
    request = teacher_request(run.request, teacher, way.teacher_keys.teacher_precision)
    teacher_inspection = inspect(replace(run, request=request, programs={"log_probs": run.step}))
    return with_teacher(run.request, request, run.mesh, inspections, teacher_inspection,
                        stays_loaded=way.asks_teacher_in_every_step)


def with_reference(request: EngineRequest, mesh: MeshShape, inspections: Inspections) -> Inspections:
    """Adds a frozen copy of the first weights, if the recipe needs it: with adapters the weights below them are it."""
    if not getattr(request.objective, "kl_beta", 0.0) or request.method.name != "full":
        return inspections
    # The whole copy, because full training changes all weights.
    size = model_weight_bytes(request, mesh)
    return {name: with_resident(inspection, {REFERENCE: size}) for name, inspection in inspections.items()}


def model_weight_bytes(request: EngineRequest, mesh: MeshShape) -> int:
    """Bytes per device of a model's weights, including per-layer embeddings."""
    # The smallest batch that the mesh divides, because only the weights are read from the parts.
    parts = exact_parts(request, BatchShape(1, mesh.fsdp, 1), *mesh.of_a_copy)
    return parts["parameters"] + parts.get(PER_LAYER_TABLE, 0)


def with_teacher(student: EngineRequest, teacher: EngineRequest, mesh: MeshShape, inspections: Inspections,
                 teacher_inspection: Inspection, *, stays_loaded: bool) -> Inspections:
    """Adds the teacher to the student's inspections.

    Each student program gets the teacher's weights, if the teacher stays loaded; the teacher's program gets the
    student's state.

    Args:
        student: the request to the student's engine.
        teacher: the request to the teacher's engine, from `teacher_request`.
        mesh: of the devices.
        inspections: of the student's programs.
        teacher_inspection: ``log_probs`` of the teacher, inspected as if it were trained: its moments are subtracted.
        stays_loaded: whether the teacher is queried during training; if not, all queries come before the first step.
    """
    weights: dict[str, int] = {TEACHER: model_weight_bytes(teacher, mesh)} if stays_loaded else {}
    state = exact_parts(student, BatchShape(1, mesh.fsdp, 1), *mesh.of_a_copy)
    # The student's whole state stays in memory during the teacher's program, moments included.
    student_parts = {f"{name} of the student": state[name] for name in STATE_PARTS if name in state}
    return {name: with_resident(inspection, weights) for name, inspection in inspections.items()} | {
        TEACHER: with_resident(_without_moments(teacher_inspection), student_parts)}


def estimated_teacher(teacher: EngineRequest, size: BatchShape, mesh: MeshShape, platform: str) -> Inspection:
    """The teacher's ``log_probs`` by formula, as if it were trained (see `with_teacher`)."""
    parts = forward_program_parts(teacher, "log_probs", mesh.share_of_a_copy(size), *mesh.of_a_copy, platform)
    return Inspection(peak_bytes=sum(parts.values()), source="estimated", breakdown=parts, versions=FORMULA_VERSIONS)


def with_resident(inspection: Inspection, parts: Mapping[str, int]) -> Inspection:
    """An inspection with further arrays that stay in memory, bytes per device by part."""
    # If the compiler did not separate the program's own arrays, ``exact`` must stay empty: these parts alone would look
    # like the complete list.
    is_separated = inspection.exact or inspection.source == "estimated"
    return replace(inspection, peak_bytes=inspection.peak_bytes + sum(parts.values()),
                   breakdown={**inspection.breakdown, **parts},
                   exact={**inspection.exact, **parts} if is_separated else inspection.exact)


def _without_moments(inspection: Inspection) -> Inspection:
    """A trained model's program as a frozen model would need it."""
    # A compiler counts them among its arguments; a formula has them in the breakdown.
    moments = inspection.exact.get("moments", inspection.breakdown.get("moments", 0))
    breakdown, exact = ({name: size for name, size in parts.items() if name != "moments"}
                        for parts in (inspection.breakdown, inspection.exact))
    return replace(inspection, peak_bytes=inspection.peak_bytes - moments, breakdown=breakdown, exact=exact)
