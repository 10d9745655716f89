"""Models that lie frozen beside the one that is trained: that which training began with, or a teacher."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import get_args

from workings.config.algorithms.base import TeacherPrecision
from workings.config.method import FULL, FrozenBits, FullConfig, LoraConfig, QloraConfig
from workings.config.training import AdamWConfig, PrecisionConfig
from workings.engines.base import EngineRequest, Inspection, Inspections, MeshShape, ProgramName
from workings.models.batch import BatchShape
from workings.models.shape import ModelShape
from workings.objectives.base import SeveralTargets
from workings.objectives.cross_entropy import CROSS_ENTROPY
from workings.planning.parts import FORMULA_VERSIONS, beside_the_step, exact_parts
from workings.planning.tensors import PER_LAYER_TABLE

REFERENCE = "reference model"
"""Part of the memory: the model that training began with."""
TEACHER: ProgramName = "teacher"
"""Part of the memory: the teacher's weights; and the program in which it is asked."""
Method = FullConfig | LoraConfig | QloraConfig
STATE = ("parameters", PER_LAYER_TABLE, "moments", "master weights")


@dataclass(frozen=True, kw_only=True)
class TeacherModel:
    """What decides how large a teacher is and how it is opened."""

    shape: ModelShape
    method: Method = FULL
    """By which it was trained: adapters stay beside its weights."""


def with_reference(request: EngineRequest, mesh: MeshShape, inspections: Inspections) -> Inspections:
    """The programs beside a frozen copy of the first weights, where the recipe holds on to them without adapters."""
    if not getattr(request.objective, "kl_beta", 0.0) or request.method.name != "full":
        return inspections
    size = _weights(request, mesh)
    return {name: beside(one, {REFERENCE: size}) for name, one in inspections.items()}


def teacher_request(student: EngineRequest, teacher: TeacherModel, precision: TeacherPrecision) -> EngineRequest:
    """What an engine is asked for that holds a frozen teacher on the student's devices.

    Args:
        student: what the student's engine was asked for.
        teacher: the model.
        precision: of its stored weights.
    """
    # By an objective of several targets its program knows how many most likely tokens it is asked for.
    objective = student.objective if isinstance(student.objective, SeveralTargets) else CROSS_ENTROPY
    shape = teacher.shape
    # The optimizer is never made: the state is loaded without.
    return replace(
        student, shape=shape, objective=objective, optimizer=AdamWConfig(name="adamw"),
        method=_method(teacher.method, fewer_bits=precision in get_args(FrozenBits)),
        frozen_bits="int8" if precision == "int8" else "nf4",
        precision=PrecisionConfig(parameters="fp32" if precision == "fp32" else "bf16",
                                  compute=student.precision.compute),
        memory=student.memory.model_copy(update={"optimizer_in_backward": False} | (
            {} if shape.per_layer_width else {"per_layer_embeddings": "device"})))


def _method(trained: Method, *, fewer_bits: bool) -> Method:
    """The method of an engine that holds a model of this one, its weights in fewer bits or not."""
    if isinstance(trained, FullConfig):
        # Adapters of the least rank, all zero, come with fewer bits.
        return QloraConfig(name="qlora", rank=1) if fewer_bits else FULL
    adapters = trained.model_dump(exclude={"name"})
    return QloraConfig(name="qlora", **adapters) if fewer_bits else LoraConfig(name="lora", **adapters)


def teacher_bytes(teacher: EngineRequest, mesh: MeshShape) -> int:
    """Bytes per device of a frozen teacher's weights."""
    return _weights(teacher, mesh)


def _weights(request: EngineRequest, mesh: MeshShape) -> int:
    """Bytes per device of a model's weights, per-layer embeddings among them."""
    # The smallest batch that the mesh divides: of all parts only weights are looked at.
    parts = exact_parts(request, BatchShape(1, mesh.fsdp, 1), *mesh)
    return parts["parameters"] + parts.get(PER_LAYER_TABLE, 0)


def with_teacher(student: EngineRequest, teacher: EngineRequest, mesh: MeshShape, inspections: Inspections,
                 asked: Inspection, *, stays: bool) -> Inspections:
    """The student's programs beside the teacher's weights, and the teacher's own beside the student's state.

    Args:
        student: what the student's engine was asked for.
        teacher: the teacher's, of `teacher_request`.
        mesh: sizes of ``fsdp`` and ``tp``.
        inspections: the student's programs.
        asked: the teacher's ``log_probs``, as of a model that is trained.
        stays: whether it is asked again and again; else it is gone before the first step.
    """
    weights: dict[str, int] = {TEACHER: teacher_bytes(teacher, mesh)} if stays else {}
    state = exact_parts(student, BatchShape(1, mesh.fsdp, 1), *mesh)
    # The student's whole state lies there while the teacher is asked, moments included.
    waiting = {f"{name} of the student": state[name] for name in STATE if name in state}
    return {name: beside(one, weights) for name, one in inspections.items()} | {
        TEACHER: beside(_without_moments(asked), waiting)}


def asked_by_formula(teacher: EngineRequest, size: BatchShape, mesh: MeshShape,
                     platform: str) -> Inspection:
    """The teacher's ``log_probs`` by formula, as of a model that is trained (see `with_teacher`)."""
    parts = beside_the_step(teacher, "log_probs", size, *mesh, platform)
    return Inspection(peak_bytes=sum(parts.values()), source="estimated", breakdown=parts, versions=FORMULA_VERSIONS)


def beside(one: Inspection, parts: Mapping[str, int]) -> Inspection:
    """A program while further arrays lie in memory, bytes per device by part."""
    # Where a compiler did not say which arrays are the program's own, these alone would pass for all of them.
    exact = {**one.exact, **parts} if one.exact or one.source == "estimated" else one.exact
    return replace(one, peak_bytes=one.peak_bytes + sum(parts.values()), breakdown={**one.breakdown, **parts},
                   exact=exact)


def _without_moments(one: Inspection) -> Inspection:
    """A program of a model that is trained, of the same model frozen."""
    moments = one.exact.get("moments", one.breakdown.get("moments", 0))
    breakdown, exact = ({name: size for name, size in parts.items() if name != "moments"}
                        for parts in (one.breakdown, one.exact))
    return replace(one, peak_bytes=one.peak_bytes - moments, breakdown=breakdown, exact=exact)
