"""The request to an engine that holds a frozen teacher."""

from dataclasses import dataclass, replace

from workings.config.method import FULL, FullConfig, LoraConfig, QloraConfig
from workings.config.training import AdamWConfig, PrecisionConfig
from workings.engines.base import EngineRequest
from workings.models.shape import ModelShape
from workings.objectives.base import CROSS_ENTROPY, SeveralTargets
from workings.ways.parts.teacher_way import TeacherPrecision

Method = FullConfig | LoraConfig | QloraConfig


@dataclass(frozen=True, kw_only=True)
class TeacherModel:
    """A teacher, as far as planning needs it."""

    shape: ModelShape
    method: Method = FULL
    """The method that it was trained by: adapters stay next to its weights."""


def teacher_request(student: EngineRequest, teacher: TeacherModel, precision: TeacherPrecision) -> EngineRequest:
    """The request to an engine that holds a frozen teacher on the student's devices.

    Args:
        student: the request to the student's engine.
        teacher: the model.
        precision: of its stored weights.
    """
    # An objective of several targets tells the teacher's program how many most likely tokens to return.
    objective = student.objective if isinstance(student.objective, SeveralTargets) else CROSS_ENTROPY
    shape = teacher.shape
    # The optimizer is never made: the state is loaded without it.
    return replace(
        student, shape=shape, objective=objective, optimizer=AdamWConfig(name="adamw"),
        method=_method(teacher.method, four_bits=precision == "nf4"),
        precision=PrecisionConfig(parameters="fp32" if precision == "fp32" else "bf16",
                                  compute=student.precision.compute),
        memory=student.memory.model_copy(update={"optimizer_in_backward": False} | (
            {} if shape.per_layer_width else {"per_layer_embeddings": "device"})))


def _method(trained: Method, *, four_bits: bool) -> Method:
    """The method of an engine that holds a model trained by ``trained``, in four bits or not."""
    if isinstance(trained, FullConfig):
        # Adapters of the least rank, all zero, come with four bits.
        return QloraConfig(name="qlora", rank=1) if four_bits else FULL
    adapters = trained.model_dump(exclude={"name"})
    return QloraConfig(name="qlora", **adapters) if four_bits else LoraConfig(name="lora", **adapters)
