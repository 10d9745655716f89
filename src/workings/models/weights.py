"""Names and shapes of a model's tensors, exactly as Hugging Face's checkpoints carry them; its family knows them."""

from math import prod

from workings.models.family import EMBEDDING, FINAL_NORM, HEAD, PROJECTIONS, RESIDUAL
from workings.models.registry import family_of
from workings.models.shape import ModelShape

__all__ = ["EMBEDDING", "FINAL_NORM", "HEAD", "PROJECTIONS", "RESIDUAL", "layer_name", "layer_shapes", "outer_shapes",
           "parameter_count", "projections", "tensor_shapes"]


def projections(shape: ModelShape) -> tuple[str, ...]:
    """Names of the matrices of one layer, in the order in which they are applied."""
    return family_of(shape).projections


def layer_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Tensors of one layer: name below ``model.layers.<i>.`` -> shape."""
    return family_of(shape).layer_shapes(shape)


def outer_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Tensors outside the layers: name -> shape. Tied embeddings have no ``lm_head.weight``."""
    return family_of(shape).outer_shapes(shape)


def layer_name(layer: int, name: str) -> str:
    """Full name of a tensor of the standard decoder's layer: ``layer_name(3, "mlp.up_proj.weight")``."""
    return f"model.layers.{layer}.{name}"


def tensor_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Every tensor of the model: full name -> shape."""
    inner, prefix = layer_shapes(shape), family_of(shape).layer_prefix
    layers = {f"{prefix}.{i}.{name}": size for i in range(shape.layers) for name, size in inner.items()}
    return outer_shapes(shape) | layers


def parameter_count(shape: ModelShape) -> int:
    """Number of stored parameters; a tied embedding counts once."""
    inner = sum(prod(size) for size in layer_shapes(shape).values())
    # All layers have the same tensors, so one is counted and multiplied.
    return sum(prod(size) for size in outer_shapes(shape).values()) + shape.layers * inner
