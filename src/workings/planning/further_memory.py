"""Memory that a run needs in addition to its trained model: a reference model, a teacher, or a sampler."""

from collections.abc import Callable, Mapping
from dataclasses import replace

from workings.config.recipe import Recipe
from workings.engines.base import EngineRequest, Inspection, Inspections, MeshShape, ProgramName
from workings.hardware.device import DeviceFacts
from workings.hardware.memory import gib
from workings.models.shape import ModelShape
from workings.planning.memory_formulas import PER_LAYER_TABLE, state_parts
from workings.planning.planned_run import PlannedRun
from workings.ways.parts.teacher import TeacherModel, teacher_request

REFERENCE = "reference model"
"""Part of the memory: the first weights."""
TEACHER: ProgramName = "teacher"
"""Part of the memory: the teacher's weights; also the program that computes its log probabilities."""
FROZEN_MODELS = (REFERENCE, TEACHER)
"""Parts that are models in memory together with the trained one."""


def with_frozen_models(run: PlannedRun, inspections: Inspections, teacher: TeacherModel | None,
                       inspect: Callable[[PlannedRun], Inspection]) -> Inspections:
    """Adds frozen models and the teacher's program; ``inspect`` inspects the teacher's only program ``log_probs``."""
    inspections = with_reference(run.request, run.mesh, inspections)
    way = run.recipe.algorithm
    if teacher is None or way.teacher_keys is None or inspections["step"].refused:
        return inspections
    request = teacher_request(run.request, teacher, way.teacher_keys.teacher_precision)
    teacher_inspection = inspect(replace(run, request=request, programs={"log_probs": run.step}))
    return with_teacher(run.request, request, run.mesh, inspections, teacher_inspection,
                        stays_loaded=way.asks_teacher_in_every_step)


def with_reference(request: EngineRequest, mesh: MeshShape, inspections: Inspections) -> Inspections:
    """Adds a frozen copy of the first weights, if the recipe needs one; adapters leave the first weights unchanged."""
    if not getattr(request.objective, "kl_beta", 0.0) or request.method.name != "full":
        return inspections
    size = model_weight_bytes(request, mesh)
    return {name: with_resident(inspection, {REFERENCE: size}) for name, inspection in inspections.items()}


def model_weight_bytes(request: EngineRequest, mesh: MeshShape) -> int:
    """Bytes per device of a model's weights, including per-layer embeddings."""
    parts = state_parts(request, *mesh.of_a_copy)
    return parts["parameters"] + parts.get(PER_LAYER_TABLE, 0)


def with_teacher(student: EngineRequest, teacher: EngineRequest, mesh: MeshShape, inspections: Inspections,
                 teacher_inspection: Inspection, *, stays_loaded: bool) -> Inspections:
    """Adds the teacher's own program to the student's inspections and, if it ``stays_loaded``, its weights to all.

    ``teacher_inspection``: of ``log_probs`` as if the teacher were trained; its moments are subtracted.
    ``stays_loaded``: whether the teacher is asked during training, and not only before the first step.
    """
    weights: dict[str, int] = {TEACHER: model_weight_bytes(teacher, mesh)} if stays_loaded else {}
    student_parts = {f"{name} of the student": size for name, size in state_parts(student, *mesh.of_a_copy).items()}
    return {name: with_resident(inspection, weights) for name, inspection in inspections.items()} | {
        TEACHER: with_resident(_without_moments(teacher_inspection), student_parts)}


def with_resident(inspection: Inspection, parts: Mapping[str, int]) -> Inspection:
    """An inspection with further arrays that stay in memory, in bytes per device by part."""
    # Where the compiler gave no exact parts, these alone would look like the complete list.
    lists_exact_parts = inspection.exact or inspection.source == "estimated"
    return replace(inspection, peak_bytes=inspection.peak_bytes + sum(parts.values()),
                   breakdown={**inspection.breakdown, **parts},
                   exact={**inspection.exact, **parts} if lists_exact_parts else inspection.exact)


def _without_moments(inspection: Inspection) -> Inspection:
    """The inspection of a frozen model's program, from that of a trained model."""
    # A compiler counts moments as exact arguments, a formula in the breakdown.
    moments = inspection.exact.get("moments", inspection.breakdown.get("moments", 0))
    breakdown, exact = dict(inspection.breakdown), dict(inspection.exact)
    breakdown.pop("moments", None)
    exact.pop("moments", None)
    return replace(inspection, peak_bytes=inspection.peak_bytes - moments, breakdown=breakdown, exact=exact)


def sampler_parts(recipe: Recipe, shape: ModelShape, device: DeviceFacts) -> dict[str, int]:
    """Bytes of the device that the recipe's sampler takes, by part; empty without a sampler."""
    return {} if recipe.sampler is None else recipe.sampler.memory(recipe, shape, device)


def next_to_sampler(device: DeviceFacts, parts: Mapping[str, int]) -> DeviceFacts:
    """The device with the memory that these parts of a sampler leave free."""
    if not parts:
        return device
    taken = sum(parts.values())
    return replace(device, memory_limit_bytes=max(0, device.memory_limit_bytes - taken),
                   memory_limit_source=f"{device.memory_limit_source}, less {gib(taken)} of the sampler")
