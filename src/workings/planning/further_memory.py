"""Memory next to the programs of the trained model.

It is a reference model or a teacher, what a server of vLLM takes of the same device, and one tensor that is whole on
every device while several processes save a checkpoint.
"""

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod

from workings.config.recipe import Recipe
from workings.config.training import BYTES_OF_FORMAT
from workings.engines.base import EngineRequest, Inspection, Inspections, MeshShape, PlanningEngine, ProgramName
from workings.hardware.catalog import Target
from workings.hardware.device import DeviceFacts
from workings.hardware.memory import gib
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape
from workings.models.weights import parameter_count
from workings.planning.memory_formulas import (
    FORMULA_VERSIONS,
    PER_LAYER_TABLE,
    forward_program_parts,
    state_parts,
    trained_tensors,
)
from workings.planning.planned_run import PlannedRun
from workings.ways.base import way_of
from workings.ways.parts.teacher import TeacherModel, teacher_request

REFERENCE = "reference model"
"""Part of the memory: the first weights."""
TEACHER: ProgramName = "teacher"
"""Part of the memory: the teacher's weights. Also the program that computes its log probabilities."""
FROZEN_MODELS = (REFERENCE, TEACHER)
"""Models in memory together with the trained one."""
CACHE_GIB = "VLLM_CPU_KVCACHE_SPACE"
"""Variable with the GiB of vLLM's cache on a CPU; a run sets it to 1 unless it is set."""
SHARE, USUAL_SHARE = "--gpu-memory-utilization", 0.9
"""Argument with the share of a card that vLLM takes, and its default."""
WEIGHTS, CACHE = "vLLM: weights", "vLLM: cache"
SAVING: ProgramName = "saving"
GATHERED = "a whole tensor of the checkpoint"
MAX_CHIPS_OF_A_HOST = 8
"""Most chips of a TPU that one host, and so one process of JAX, has."""


def with_frozen_models(run: PlannedRun, inspections: Inspections, teacher: TeacherModel | None,
                       inspect: Callable[[PlannedRun], Inspection]) -> Inspections:
    """Adds the recipe's frozen models to the inspections of a student's programs, and the program of its teacher.

    ``inspect`` gets the teacher's run, whose only program is ``log_probs``.
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
    size = model_weight_bytes(request, mesh)
    return {name: with_resident(inspection, {REFERENCE: size}) for name, inspection in inspections.items()}


def model_weight_bytes(request: EngineRequest, mesh: MeshShape) -> int:
    """Bytes per device of a model's weights, including per-layer embeddings."""
    parts = state_parts(request, *mesh.of_a_copy)
    return parts["parameters"] + parts.get(PER_LAYER_TABLE, 0)


def with_teacher(student: EngineRequest, teacher: EngineRequest, mesh: MeshShape, inspections: Inspections,
                 teacher_inspection: Inspection, *, stays_loaded: bool) -> Inspections:
    """Adds the teacher to the student's inspections: to each program its weights, and its own program.

    ``teacher_inspection`` is that of the teacher's ``log_probs`` as if it were trained: its moments are subtracted.
    ``stays_loaded``: whether the teacher is queried during training; if not, all queries come before the first step.
    """
    weights: dict[str, int] = {TEACHER: model_weight_bytes(teacher, mesh)} if stays_loaded else {}
    student_parts = {f"{name} of the student": size for name, size in state_parts(student, *mesh.of_a_copy).items()}
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


def sampler_parts(recipe: Recipe, shape: ModelShape, device: DeviceFacts) -> dict[str, int]:
    """Bytes by part, by formula; empty without a server, and for one that runs elsewhere already (`sampler.url`)."""
    if recipe.sampler is None or recipe.sampler.url:
        return {}
    weights = BYTES_OF_FORMAT[recipe.precision.compute] * parameter_count(shape)
    if device.platform == "cpu":
        return {WEIGHTS: weights, CACHE: int(float(os.environ.get(CACHE_GIB, "1")) * 2**30)}
    # Its cache takes what the share leaves next to the weights.
    taken = int(_share(recipe.sampler.arguments) * device.memory_limit_bytes)
    return {WEIGHTS: weights, CACHE: max(0, taken - weights)}


def _share(arguments: tuple[str, ...]) -> float:
    words = [word for argument in arguments for word in argument.split("=", 1)]
    return float(words[words.index(SHARE) + 1]) if SHARE in words[:-1] else USUAL_SHARE


def next_to_sampler(device: DeviceFacts, parts: Mapping[str, int]) -> DeviceFacts:
    """The device with what a sampler leaves of it; the device itself without parts."""
    if not parts:
        return device
    taken = sum(parts.values())
    return replace(device, memory_limit_bytes=max(0, device.memory_limit_bytes - taken),
                   memory_limit_source=f"{device.memory_limit_source}, less {gib(taken)} of vLLM")


def with_saving(run: PlannedRun, engine: PlanningEngine | None, inspections: Inspections) -> Inspections:
    """Adds the saving where it needs more than every program of the run. Of a stack of layers one is gathered."""
    process_per_device = engine is None or getattr(engine, "process_per_device", False)
    if (run.recipe.checkpoint.sharded or not _gathers(run.target, run.mesh.devices, process_per_device)
            or inspections["step"].refused):
        return inspections
    step = inspections["step"]
    # With adapters only they are saved, in float32; moments may have four bytes where parameters have two.
    width = 4 if run.request.method.name != "full" else max(
        BYTES_OF_FORMAT[run.request.precision.parameters], BYTES_OF_FORMAT[run.request.precision.moments])
    parts = state_parts(run.request, *run.mesh.of_a_copy) | {
        name: step.breakdown[name] for name in (*FROZEN_MODELS, *step.assumed) if name in step.breakdown} | {
        GATHERED: width * max(prod(tensor.dims) for tensor in trained_tensors(run.request, 1, 1))}
    peak = sum(parts.values())
    if peak <= max(inspection.peak_bytes for inspection in inspections.values()):
        return inspections
    return {**inspections, SAVING: Inspection(peak_bytes=peak, source="estimated", breakdown=parts, exact=parts,
                                              versions=FORMULA_VERSIONS)}


def _gathers(target: Target, devices: int, process_per_device: bool) -> bool:
    """Whether tensors are gathered on devices: the run has several processes, one for each device or for each host."""
    if process_per_device or target.platform == "cpu":
        return devices > 1
    if target.platform == "tpu":
        return target.chips > MAX_CHIPS_OF_A_HOST
    return bool(target.topology) and not target.topology.startswith("1x1x")
