"""Names and shapes of a model's tensors, exactly as Hugging Face's checkpoints carry them; its family knows them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import groupby
from math import prod
from types import MappingProxyType

from workings.errors import RequestError
from workings.models.registry import family_of
from workings.models.shape import ModelShape

PEFT_PREFIX = "base_model.model."
"""Prefix of peft's names of tensors before those of Hugging Face."""


def projections(shape: ModelShape) -> tuple[str, ...]:
    """Names of the matrices of one layer, in the order of their use."""
    return family_of(shape).projections


def find_projections(names: Sequence[str], shape: ModelShape) -> tuple[str, ...]:
    """The projections with these last parts (`q_proj`), each once. Raises `RequestError` for one that is not there."""
    there = {name.rpartition(".")[2]: name for name in projections(shape)}
    if unknown := [name for name in names if name not in there]:
        raise RequestError(f"the model has no projection {' or '.join(unknown)}", f"projections of {shape.family}",
                           f"method.target_modules=[{', '.join(there)}]")
    return tuple(there[name] for name in dict.fromkeys(names))


@cache
def layer_shapes(shape: ModelShape, layer: int = 0) -> Mapping[str, tuple[int, ...]]:
    """Tensors of one layer (from 0): name below ``model.layers.<i>.`` -> shape. In most families all are alike."""
    # The cache gives one dict to all callers, so none of them may change it.
    return MappingProxyType(family_of(shape).layer_shapes(shape, layer))


def outer_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Tensors outside the layers: name -> shape. Tied embeddings have no ``lm_head.weight``."""
    return family_of(shape).outer_shapes(shape)


def is_frozen(name: str, shape: ModelShape) -> bool:
    """Whether no method trains this tensor, regardless of the recipe (Gemma 4: per-layer embeddings, layer scalars)."""
    return name.endswith(family_of(shape).frozen)


def first_value(name: str, size: int, shape: ModelShape) -> float:
    """Initial value of all elements of a vector of this name and length, in a model with random weights.

    Biases are zero and norms the identity, except for norms of queries in a family without a scale of scores (Gemma 4):
    they give scores a standard deviation of one, because with the identity attention would begin with one key only.
    """
    # A norm that multiplies by 1 + w is the identity at w = 0.
    if name.endswith(".bias") or (shape.norm_plus_one and not name.endswith(family_of(shape).norms_at_one)):
        return 0.0
    if name.endswith("self_attn.q_norm.weight") and shape.query_scale:
        # Queries and keys of unit variance have scores with a standard deviation of √d; this divides by it.
        return float(size ** -0.5 / shape.query_scale)
    return 1.0


def layer_name(layer: int, name: str) -> str:
    """Full name of a tensor of the standard decoder's layer: ``layer_name(3, "mlp.up_proj.weight")``."""
    return f"model.layers.{layer}.{name}"


def tensor_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Every tensor of the model: full name -> shape."""
    prefix = family_of(shape).layer_prefix
    return outer_shapes(shape) | {f"{prefix}.{i}.{name}": size for i in range(shape.layers)
                                  for name, size in layer_shapes(shape, i).items()}


def parameter_count(shape: ModelShape) -> int:
    """Number of stored parameters; a tied embedding counts once."""
    return sum(prod(size) for size in tensor_shapes(shape).values())


def state_channels(shape: ModelShape) -> int:
    """Numbers of one token's queries, keys and values in a layer with a state."""
    return (2 * shape.linear_key_heads * shape.linear_key_head_dim
            + shape.linear_value_heads * shape.linear_value_head_dim)


@dataclass(frozen=True)
class LayerLoop:
    """A repeated sequence of layers."""

    iterations: int
    stacks: tuple[tuple[int, ...], ...]
    """Numbers of the layers of each stack, iteration by iteration. Neighbors with equal tensors are in one stack."""

    @property
    def first_layer(self) -> int:
        """Number of the first layer."""
        return self.stacks[0][0]

    @property
    def layers_per_iteration(self) -> int:
        """Layers of one iteration."""
        return sum(map(len, self.stacks)) // self.iterations


@cache
def layer_loops(shape: ModelShape) -> tuple[LayerLoop, ...]:
    """The layers as loops. Layers of one stack have tensors of the same names and shapes.

    In most families all layers are alike: one loop with one stack, and one layer an iteration. Gemma 4 E2B repeats four
    sliding layers and a global one, three times with their own keys and four times without: two loops of two stacks.
    """
    # Layers are alike for a loop if their tensors are; numbers that differ are passed into the loop.
    kinds = [frozenset(layer_shapes(shape, i).items()) for i in range(shape.layers)]
    loops: list[LayerLoop] = []
    first = 0
    while first < shape.layers:
        # The sequence whose repetitions cover the most layers; of equals the shortest, because each stack is compiled
        # once. Quadratic in the layers for each loop, once a shape.
        count, step = max(((_repetitions(kinds, first, step), step) for step in range(1, shape.layers - first + 1)),
                          key=lambda loop: (loop[0] * loop[1] if loop[0] > 1 or loop[1] == 1 else 0, -loop[1]))
        equal = [list(group) for _, group in groupby(range(first, first + step), key=kinds.__getitem__)]
        loops.append(LayerLoop(count, tuple(tuple(layer + i * step for i in range(count) for layer in layers)
                                            for layers in equal)))
        first += count * step
    return tuple(loops)


def _repetitions(kinds: Sequence[object], first: int, step: int) -> int:
    sequence, count = kinds[first:first + step], 1
    while kinds[first + count * step:first + (count + 1) * step] == sequence:
        count += 1
    return count
