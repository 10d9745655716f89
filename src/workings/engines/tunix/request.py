"""Features that Tunix's trainer does not have, refused before anything is opened."""

from workings.config.training import AdamWConfig
from workings.engines.base import EngineRequest
from workings.engines.tunix.models import check_shape
from workings.errors import RequestError


def check_request(request: EngineRequest) -> AdamWConfig:
    """The optimizer's settings.

    Raises:
        RequestError: what the recipe asks for has no counterpart in Tunix's own model and trainer.
    """
    check_shape(request.shape)
    precision, memory, optimizer = request.precision, request.memory, request.optimizer
    _need(request.method.name == "full", "method.name", request.method.name, "full: every weight is trained",
          "method.name=full")
    _need(not request.packed, "data.packing", "on", "none: PeftTrainer knows no packed rows", "data.packing=none")
    _need(request.mesh.tp == 1, "mesh.tp", request.mesh.tp, "1", "mesh.tp=1")
    _need(precision.rounding == "nearest", "precision.rounding", precision.rounding,
          "nearest: optax adds its updates to the weights as they are stored", "precision.rounding=nearest")
    for name, value in (("compute", precision.compute), ("moments", precision.moments)):
        _need(value == precision.parameters, f"precision.{name}", value,
              f"{precision.parameters}: Tunix computes and keeps moments in the number format of the weights",
              f"precision.{name}={precision.parameters}")
    _need(memory.attention in ("auto", "plain"), "memory.attention", memory.attention,
          "plain: Tunix's Gemma has no other", "memory.attention=plain")
    _need(memory.remat in ("none", "layer"), "memory.remat", memory.remat, "none or layer", "memory.remat=layer")
    _need(memory.loss_chunk == 0, "memory.loss_chunk", memory.loss_chunk,
          "0: its loss has all logits, and a one-hot of their size", "memory.loss_chunk=0")
    if not isinstance(optimizer, AdamWConfig) or optimizer.name != "adamw":
        raise RequestError(f"optimizer.name: {optimizer.name} with engine tunix",
                           "adamw: optax's Adafactor factors Tunix's per-head tensors, which is another optimizer",
                           "optimizer.name=adamw, or engine=jax")
    return optimizer


def _need(holds: bool, key: str, given: object, expected: str, try_next: str) -> None:
    if not holds:
        raise RequestError(f"{key}: {given} with engine tunix", expected, f"{try_next}, or engine=jax")
