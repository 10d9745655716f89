"""Names and shapes of a model's tensors, as in Hugging Face's checkpoints."""

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
"""Peft's names of tensors are this prefix and Hugging Face's names."""


def find_projections(names: Sequence[str], shape: ModelShape) -> tuple[str, ...]:
    """The projections with these last parts (`q_proj`), each once. Raises `RequestError` for an unknown one."""
    by_last_part = {name.rpartition(".")[2]: name for name in family_of(shape).projections}
    if unknown := [name for name in names if name not in by_last_part]:
        raise RequestError(f"the model has no projection {' or '.join(unknown)}", f"projections of {shape.family}",
                           f"method.target_modules=[{', '.join(by_last_part)}]")
    return tuple(by_last_part[name] for name in dict.fromkeys(names))


@cache
def layer_shapes(shape: ModelShape, layer: int = 0) -> Mapping[str, tuple[int, ...]]:
    """Tensors of one layer (from 0): name below ``model.layers.<i>.`` -> shape. In most families all are alike."""
    return MappingProxyType(family_of(shape).layer_shapes(shape, layer))


def is_frozen(name: str, shape: ModelShape) -> bool:
    """Whether no method trains this tensor (Gemma 4: per-layer embeddings, layer scalars)."""
    return name.endswith(family_of(shape).frozen)


def first_value(name: str, size: int, shape: ModelShape) -> float:
    """Initial value of all elements of a vector of this name and length, in a model with random weights.

    Biases are zero and norms the identity. Only norms of queries in a family without a scale of scores (Gemma 4) give
    scores a standard deviation of one, so that attention does not begin with a single key.
    """
    if name.endswith(".bias") or (shape.norm_plus_one and not name.endswith(family_of(shape).norms_at_one)):
        return 0.0
    if name.endswith("self_attn.q_norm.weight") and shape.query_scale:
        return float(size ** -0.5 / shape.query_scale)
    return 1.0


def tensor_shapes(shape: ModelShape) -> dict[str, tuple[int, ...]]:
    """Every tensor of the model: full name -> shape."""
    family = family_of(shape)
    return family.outer_shapes(shape) | {f"{family.layer_prefix}.{i}.{name}": size for i in range(shape.layers)
                                         for name, size in layer_shapes(shape, i).items()}


def parameter_count(shape: ModelShape) -> int:
    """Number of stored parameters; a tied embedding counts once."""
    return sum(prod(size) for size in tensor_shapes(shape).values())


def state_channels(shape: ModelShape) -> int:
    """Numbers of one token's queries, keys and values in a layer with a linear state."""
    return (2 * shape.linear_key_heads * shape.linear_key_head_dim
            + shape.linear_value_heads * shape.linear_value_head_dim)


@dataclass(frozen=True)
class LayerLoop:
    """A repeated sequence of layers. Neighbors with equal tensors are in one stack."""

    iterations: int
    stacks: tuple[tuple[int, ...], ...]
    """Numbers of the layers of each stack, iteration by iteration."""

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
    """The layers as loops.

        A A A A          one loop of 4 iterations with one stack (most families)
        S S G S S G T T  two loops: (S S G) with 2 iterations and 2 stacks, (T) with 2 iterations and one stack

    Layers of one stack have tensors of the same names and shapes.
    """
    kinds = [frozenset(layer_shapes(shape, i).items()) for i in range(shape.layers)]
    loops: list[LayerLoop] = []
    first = 0
    while first < shape.layers:
        counts = {size: _repetitions(kinds, first, size) for size in range(1, shape.layers - first + 1)}
        repeated = [size for size, count in counts.items() if size == 1 or count > 1]
        # The sequence whose repetitions cover the most layers; of equal ones the shortest.
        length = max(repeated, key=lambda size: size * counts[size])
        iterations = counts[length]
        stacks = []
        for _, group in groupby(range(first, first + length), key=kinds.__getitem__):
            layers = list(group)
            stacks.append(tuple(layer + i * length for i in range(iterations) for layer in layers))
        loops.append(LayerLoop(iterations, tuple(stacks)))
        first += iterations * length
    return tuple(loops)


def _repetitions(kinds: Sequence[object], first: int, step: int) -> int:
    """How often the sequence of ``step`` kinds from ``first`` on is repeated, itself included."""
    sequence, count = kinds[first:first + step], 1
    while kinds[first + count * step:first + (count + 1) * step] == sequence:
        count += 1
    return count
