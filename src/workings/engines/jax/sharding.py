"""Shardings of rows and weights on one mesh.

Its axes are ``replicate`` (rows only; absent for one copy of the parameters), ``fsdp`` (rows and parameters) and ``tp``
(matrices).
"""

from dataclasses import dataclass
from math import prod
from typing import Any

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from workings.config.training import MeshConfig
from workings.engines.base import MeshShape
from workings.engines.jax.params_tree import is_stacked, layer_tensor
from workings.errors import RequestError
from workings.models.family import EMBEDDING, HEAD, PER_LAYER_EMBEDDING, RESIDUAL

P = PartitionSpec
REPLICATE, FSDP, TP = "replicate", "fsdp", "tp"
ROW_WISE = RESIDUAL
"""Matrices whose input is split over ``tp`` because the matrix before them is: ``tp`` splits them by their input."""
NF4_TENSORS = ("weight.nf4", "weight.absmax")
"""Tensors of a 4-bit matrix: codes ``[blocks, 32, out]`` and scales ``[blocks, out]``."""


@dataclass(frozen=True)
class Layout:
    """The mesh, and the sharding of every kind of array."""

    mesh: Mesh

    @property
    def shape(self) -> MeshShape:
        """Devices along each axis."""
        return MeshShape.of(self.mesh.shape)

    @property
    def copies(self) -> str | None:
        """The mesh axis of the copies, as a part of a `PartitionSpec`; a mesh of one copy has none."""
        return REPLICATE if self.shape.replicate > 1 else None

    @property
    def row_axes(self) -> Any:
        """The mesh axes that split rows, as a part of a `PartitionSpec`."""
        return (REPLICATE, FSDP) if self.copies else FSDP

    def sharding(self, *spec: Any) -> NamedSharding:
        """A sharding on this mesh; without arguments a full copy on every device."""
        return NamedSharding(self.mesh, P(*spec))

    def constrain(self, x: jax.Array, *spec: Any) -> jax.Array:
        """An array that is split in this way; the program of one device stays without a constraint."""
        return x if self.shape.devices == 1 else jax.lax.with_sharding_constraint(x, self.sharding(*spec))

    def rows(self, x: jax.Array) -> jax.Array:
        """Keep activations ``[B, ...]`` split by row; without this the compiler may gather the whole batch."""
        return self.constrain(x, self.row_axes)

    def inner(self, x: jax.Array) -> jax.Array:
        """Keep activations inside a layer split by row; the compiler chooses the other axes (``tp`` splits heads)."""
        # `None` would mean copies along these axes: heads that `tp` splits would be gathered.
        return self.constrain(x, self.row_axes, *[P.UNCONSTRAINED] * (x.ndim - 1))

    def splits_vocabulary(self, vocab_size: int) -> bool:
        """Whether each device holds a part of the embedding: a copy has several, and they divide the vocabulary."""
        return self.shape.fsdp * self.shape.tp > 1 and vocab_size % (self.shape.fsdp * self.shape.tp) == 0

    def shard_map(self, function: Any, inputs: Any, outputs: Any) -> Any:
        """A function of each device's own arrays as one of whole arrays; partitions of its arguments and results."""
        return jax.shard_map(function, mesh=self.mesh, in_specs=inputs, out_specs=outputs, check_vma=False)

    def sum_over_copies(self, x: jax.Array) -> jax.Array:
        """Inside `shard_map`: the sum of what the copies of the parameters have, each from its own rows."""
        return jax.lax.psum(x, REPLICATE) if self.copies else x

    def batch(self) -> NamedSharding:
        """Sharding of a step's arrays ``[A, B, S]``."""
        return self.sharding(None, self.row_axes)

    def spec(self, name: str, size: tuple[int, ...]) -> PartitionSpec:
        """Partition of a parameter without its layer axis, by its Hugging Face name. Vectors are copied.

        An axis that a mesh axis does not divide is not split. Adapters and 4-bit storage are split over ``tp`` as their
        projection's weight is.
        """
        if len(size) < 2:
            return P()
        # Whole rows over both axes: a device owns a token's embedding, its logit and its part of the gradient.
        if name in (EMBEDDING, HEAD, PER_LAYER_EMBEDDING):
            return P((FSDP, TP), None) if size[0] % (self.shape.fsdp * self.shape.tp) == 0 else P()
        row_wise = name.startswith(ROW_WISE)
        # The rank of an adapter is never split. Where `tp` splits a side of the matrix, `fsdp` splits the same side of
        # the adapter further, so that every device holds its own part.
        if name.endswith("lora_A.weight"):  # [r, in]
            return P(None, self._fit(size[1], (TP, FSDP) if row_wise else (FSDP,)))
        if name.endswith("lora_B.weight"):  # [out, r]
            return P(self._fit(size[0], (FSDP,) if row_wise else (TP, FSDP)), None)
        if name.endswith(NF4_TENSORS):
            return self._blocks(size, row_wise, is_codes=name.endswith(NF4_TENSORS[0]))
        # One matrix splits its output over `tp` and the next its input, so nothing is gathered between the two.
        axes = (FSDP, TP) if row_wise else (TP, FSDP)
        return P(*(axis if length % self.mesh.shape[axis] == 0 else None
                   for axis, length in zip(axes, size, strict=True)))

    def _fit(self, length: int, axes: tuple[str, ...]) -> Any:
        """The mesh axes that split this length: as many from the front as divide it."""
        while axes and length % prod(self.mesh.shape[axis] for axis in axes):
            axes = axes[:-1]
        return axes[0] if len(axes) == 1 else axes or None

    def _blocks(self, size: tuple[int, ...], row_wise: bool, *, is_codes: bool) -> PartitionSpec:
        """Partition of 4-bit codes and their scales along whole blocks. Flat codes (see `nf4`) are copied."""
        if is_codes and len(size) == 2:
            return P()
        blocks, out = size[0], size[-1]
        # Codes and scales have the input first and the output last, the other way round than the weight.
        if row_wise:
            ends = self._fit(blocks, (TP,)), self._fit(out, (FSDP,))
        elif blocks % self.shape.fsdp:  # the other side takes both axes
            ends = None, self._fit(out, (TP, FSDP))
        else:
            ends = FSDP, self._fit(out, (TP,))
        return P(ends[0], None, ends[1]) if is_codes else P(*ends)

    def without_fsdp(self, name: str, x: jax.Array) -> jax.Array:
        """A parameter gathered over ``fsdp`` and still split over ``tp``."""
        names = (axis if isinstance(axis, tuple) else (axis,) for axis in self.spec(name, x.shape))
        return self.constrain(x, *(TP if TP in axis else None for axis in names))

    def params(self, arrays: dict[str, Any]) -> dict[str, NamedSharding]:
        """Shardings of parameters by flat name."""
        # The layer axis of a stack is never split, because a scan goes along it.
        return {name: self.sharding(*[None] * is_stacked(name), *self.spec(layer_tensor(name),
                                                                           x.shape[is_stacked(name):]))
                for name, x in arrays.items()}


def make_layout(devices: tuple[jax.Device, ...], asked: MeshConfig) -> Layout:
    """The mesh of a request.

    ``fsdp: auto`` takes all devices that ``replicate`` and ``tp`` leave; on a CPU, where several devices of a process
    are a simulation, it takes one. Raises `RequestError` for a mesh of more devices than there are, or of fewer than
    several processes have.
    """
    available, others = len(devices), asked.replicate * asked.tp
    several = len({device.process_index for device in devices}) > 1
    alone = devices[0].platform == "cpu" and not several
    fsdp = asked.fsdp if isinstance(asked.fsdp, int) else 1 if alone else max(1, available // others)
    wanted = MeshShape(fsdp, asked.tp, asked.replicate)
    # Of several processes, one without a device of the mesh could take no part.
    too_few = several and wanted.devices < available and jax.distributed.is_initialized()
    if wanted.devices > available or too_few:
        raise RequestError(f"{wanted.text()} needs {wanted.devices} devices, and {available} are here",
                           "a mesh of all of them" if too_few else "a mesh that fits them", _fitting(available, asked))
    # `tp` goes along neighbors in JAX's order of devices, because it exchanges activations in every layer; copies are
    # the farthest from each other, because they exchange gradients only.
    axes = wanted.axes()
    return Layout(Mesh(np.array(devices[:wanted.devices]).reshape(*axes.values()), tuple(axes)))


def _fitting(available: int, asked: MeshConfig) -> str:
    """Keys of a mesh that has this many devices."""
    copies = asked.replicate if available % (asked.replicate * asked.tp) == 0 else 1
    return f"mesh.fsdp={max(1, available // (copies * asked.tp))}" + (
        f" mesh.replicate={copies}" if copies != asked.replicate else "")
