"""Which engine and which model keep the table of per-layer embeddings on the host, asked without a framework."""

from workings.config.training import MemoryConfig
from workings.engines.base import Refusal
from workings.models.shape import ModelShape


def host_table_refusal(memory: MemoryConfig, shape: ModelShape, engine: str) -> Refusal | None:
    """Why `memory.per_layer_embeddings: host` cannot be had; None where it can, or where it is not asked for."""
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
