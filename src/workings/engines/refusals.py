"""Optimizers, memory settings and packed rows that our engines do not support, checked without their frameworks."""

from typing import Any

from workings.config.training import OPTIMIZERS, MemoryConfig, OptimizerConfig
from workings.engines.base import EngineRequest, Refusal
from workings.models.shape import ModelShape


def register_optimizer(optimizers: dict[str, type[Any]], name: str, optimizer: type[Any]) -> None:
    """Add an engine's optimizer by the name of its configuration. Raises `ValueError` where the name is taken."""
    if name in optimizers:
        raise ValueError(f"two optimizers of the name {name}: {optimizers[name].__name__}, {optimizer.__name__}")
    optimizers[name] = optimizer


def optimizer_refusal(config: OptimizerConfig, engine: str) -> Refusal | None:
    """Refusal of an optimizer that an engine does not have (`OptimizerFields.engines`); None if it has it."""
    if engine in config.engines:
        return None
    *names, last = (each.optimizer_name() for each in OPTIMIZERS if engine in each.engines)
    return Refusal(feature=f"optimizer {config.name}", given=f"optimizer.name: {config.name} with engine {engine}",
                   expected=f"{', '.join(names)} or {last}",
                   try_next=f"optimizer.name=adamw, or engine={config.engines[0]}")


def host_table_refusal(memory: MemoryConfig, shape: ModelShape, engine: str) -> Refusal | None:
    """Refusal of `memory.per_layer_embeddings: host`; None if it is supported or not asked for."""
    if memory.per_layer_embeddings == "device":
        return None
    asked, feature = "memory.per_layer_embeddings: host", "per-layer embeddings on the host"
    if not shape.per_layer_width:
        return Refusal(feature=feature, given=f"{asked} with a {shape.family} model that has no such table",
                       expected="device: there is nothing to keep on the host",
                       try_next="memory.per_layer_embeddings=device")
    if engine != "torch":
        return Refusal(feature=feature, given=f"{asked} with engine {engine}",
                       expected="device: this engine holds all weights on the device",
                       try_next="memory.per_layer_embeddings=device, or engine=torch")
    return None


def packing_refusal(packed: bool, shape: ModelShape) -> Refusal | None:
    """Refusal of packed rows; None if they are supported or not asked for.

    Unverified models are checked when they are opened.
    """
    if not (packed and shape.verified and shape.has_state):
        return None
    return Refusal(feature="packed rows in layers with a state",
                   given=f"data.packing with a {shape.family} model, whose layers keep a state: the row before would "
                         "be seen", expected="one row a sequence", try_next="data.packing=none")


def half_refusal(request: EngineRequest, engine: str) -> Refusal | None:
    """Refusal of `precision.compute: fp16`; None if it is supported or not asked for."""
    if request.precision.compute != "fp16":
        return None
    shape, given = request.shape, "precision.compute: fp16"
    if engine != "torch":
        return Refusal(feature="fp16", given=f"{given} with engine {engine}",
                       expected="fp32 or bf16: this engine does not scale the loss, which fp16 needs",
                       try_next="engine=torch, or precision.compute=bf16")
    if request.memory.optimizer_in_backward:
        return Refusal(feature="fp16 with the optimizer in backward",
                       given=f"{given} with memory.optimizer_in_backward: true",
                       expected="false: only after the whole backward is it known whether a gradient overflowed",
                       try_next="memory.optimizer_in_backward=false, or precision.compute=fp32")
    what = ("experts" if shape.experts else "layers that keep a state" if shape.has_state
            else "" if shape.verified else "a class that is not verified")
    if what:
        return Refusal(feature=f"fp16 with {what}", given=f"{given} with a {shape.family} model, which has {what}",
                       expected="fp32 or bf16: only attention and feed-forward layers have products in fp16",
                       try_next="precision.compute=fp32")
    return None
