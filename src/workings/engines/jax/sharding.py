"""Shardings of rows and weights over a mesh of devices.

Axes of the mesh: ``replicate`` (absent for one copy) splits rows, ``fsdp`` rows and parameters, ``tp`` matrices.
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
NF4_TENSORS = ("weight.nf4", "weight.absmax")
"""Tensors of a 4-bit matrix: codes ``[blocks, 32, out]`` and scales ``[blocks, out]``."""


@dataclass(frozen=True)
class Layout:
    """A mesh, with the sharding of every kind of array on it."""

    mesh: Mesh

    @property
    def shape(self) -> MeshShape:
        """Devices along each axis."""
        return MeshShape.of(self.mesh.shape)

    @property
    def copies(self) -> str | None:
        """The mesh axis of the copies, as a part of a `PartitionSpec`; None for one copy."""
        return REPLICATE if self.shape.replicate > 1 else None

    @property
    def row_axes(self) -> Any:
        """The mesh axes that split rows, as a part of a `PartitionSpec`."""
        return (REPLICATE, FSDP) if self.copies else FSDP

    def sharding(self, *spec: Any) -> NamedSharding:
        """A sharding on this mesh; without arguments a full copy on every device."""
        return NamedSharding(self.mesh, P(*spec))

    def constrain(self, x: jax.Array, *spec: Any) -> jax.Array:
        """An array that is split in this way; on one device the array itself."""
        return x if self.shape.devices == 1 else jax.lax.with_sharding_constraint(x, self.sharding(*spec))

    def rows(self, x: jax.Array) -> jax.Array:
        """Keep activations ``[B, ...]`` split by row; otherwise the compiler might gather the whole batch."""
        return self.constrain(x, self.row_axes)

    def inner(self, x: jax.Array) -> jax.Array:
        """Keep activations inside a layer split by row; the compiler chooses the other axes (``tp`` splits heads)."""
        return self.constrain(x, self.row_axes, *[P.UNCONSTRAINED] * (x.ndim - 1))

    def splits_vocabulary(self, vocab_size: int) -> bool:
        """Whether each device of a copy has its own part of the embedding; it does if they can share it evenly."""
        devices = self.shape.fsdp * self.shape.tp
        return devices > 1 and vocab_size % devices == 0

    def shard_map(self, function: Any, inputs: Any, outputs: Any) -> Any:
        """Turn a function of each device's parts into a function of whole arrays with these partitions."""
        return jax.shard_map(function, mesh=self.mesh, in_specs=inputs, out_specs=outputs, check_vma=False)

    def sum_over_copies(self, x: jax.Array) -> jax.Array:
        """Inside `shard_map`: the sum over the copies of the parameters."""
        return jax.lax.psum(x, REPLICATE) if self.copies else x

    def batch(self) -> NamedSharding:
        """Sharding of a step's arrays ``[A, B, S]``."""
        return self.sharding(None, self.row_axes)

    def spec(self, name: str, size: tuple[int, ...]) -> PartitionSpec:
        """Partition of a parameter without its layer axis, by its Hugging Face name. Vectors are copied.

        Axes that the mesh does not divide are not split. ``tp`` splits adapters and 4-bit matrices like the weight.
        """
        if len(size) < 2:
            return P()
        if name in (EMBEDDING, HEAD, PER_LAYER_EMBEDDING):
            return P((FSDP, TP), None) if size[0] % (self.shape.fsdp * self.shape.tp) == 0 else P()
        # `tp` splits the outputs of one matrix and the inputs of the next, so nothing is gathered between the two.
        splits_input = name.startswith(RESIDUAL)
        # The rank of an adapter is not split. `fsdp` splits the other axis, in addition to `tp`.
        if name.endswith("lora_A.weight"):  # [r, in]
            return P(None, self._fit(size[1], (TP, FSDP) if splits_input else (FSDP,)))
        if name.endswith("lora_B.weight"):  # [out, r]
            return P(self._fit(size[0], (FSDP,) if splits_input else (TP, FSDP)), None)
        if name.endswith(NF4_TENSORS):
            return self._blocks(size, splits_input, is_codes=name.endswith(NF4_TENSORS[0]))
        axes = (FSDP, TP) if splits_input else (TP, FSDP)
        return P(*(axis if length % self.mesh.shape[axis] == 0 else None
                   for axis, length in zip(axes, size, strict=True)))

    def _fit(self, length: int, axes: tuple[str, ...]) -> Any:
        """The mesh axes that split this length: the first ones of ``axes``, as many as divide it."""
        while axes and length % prod(self.mesh.shape[axis] for axis in axes):
            axes = axes[:-1]
        return axes[0] if len(axes) == 1 else axes or None

    def _blocks(self, size: tuple[int, ...], splits_input: bool, *, is_codes: bool) -> PartitionSpec:
        """Partition of codes ``[blocks, 32, out]`` or scales ``[blocks, out]``. Flat codes (see `nf4`) are copied."""
        if is_codes and len(size) == 2:
            return P()
        blocks, out = size[0], size[-1]
        if splits_input:
            of_blocks, of_out = self._fit(blocks, (TP,)), self._fit(out, (FSDP,))
        elif blocks % self.shape.fsdp == 0:
            of_blocks, of_out = FSDP, self._fit(out, (TP,))
        else:
            of_blocks, of_out = None, self._fit(out, (TP, FSDP))
        return P(of_blocks, None, of_out) if is_codes else P(of_blocks, of_out)

    def without_fsdp(self, name: str, x: jax.Array) -> jax.Array:
        """A parameter gathered over ``fsdp`` and still split over ``tp``."""
        return self.constrain(x, *self._spec_without_fsdp(name, x.shape))

    def _spec_without_fsdp(self, name: str, size: tuple[int, ...]) -> PartitionSpec:
        names = (axis if isinstance(axis, tuple) else (axis,) for axis in self.spec(name, size))
        return P(*(TP if TP in axis else None for axis in names))

    def gathered_layers(self, stacks: dict[str, Any]) -> dict[str, NamedSharding]:
        """Shardings of stacked layers (names without ``layers.``) that are gathered over ``fsdp``."""
        return {name: self.sharding(None, *self._spec_without_fsdp(layer_tensor(name), x.shape[1:]))
                for name, x in stacks.items()}

    def params(self, arrays: dict[str, Any]) -> dict[str, NamedSharding]:
        """Shardings of parameters by flat name."""
        shardings = {}
        for name, x in arrays.items():
            # The layer axis of a stack is not split, because a scan goes along it.
            layer_axis = (None,) if is_stacked(name) else ()
            shardings[name] = self.sharding(*layer_axis, *self.spec(layer_tensor(name), x.shape[len(layer_axis):]))
        return shardings


def make_layout(devices: tuple[jax.Device, ...], asked: MeshConfig) -> Layout:
    """The mesh of a request.

    ``fsdp: auto`` takes all devices that ``replicate`` and ``tp`` leave, or one of the CPUs that a process simulates.
    Raises `RequestError` for more devices than there are, or if several processes have devices that are left out.
    """
    available = len(devices)
    several_processes = len({device.process_index for device in devices}) > 1
    if isinstance(asked.fsdp, int):
        fsdp = asked.fsdp
    elif devices[0].platform == "cpu" and not several_processes:
        fsdp = 1
    else:
        fsdp = max(1, available // (asked.replicate * asked.tp))
    wanted = MeshShape(fsdp, asked.tp, asked.replicate)
    leaves_out = several_processes and wanted.devices < available and jax.distributed.is_initialized()
    if wanted.devices > available or leaves_out:
        raise RequestError(f"{wanted.text()} needs {wanted.devices} devices, and {available} are here",
                           "a mesh of all of them" if leaves_out else "a mesh that fits them",
                           _fitting(available, asked))
    # Neighbors in JAX's order of devices are along `tp`, which exchanges the most data. Copies exchange the least.
    axes = wanted.axes()
    return Layout(Mesh(np.array(devices[:wanted.devices]).reshape(*axes.values()), tuple(axes)))


def _fitting(available: int, asked: MeshConfig) -> str:
    """Overrides that give a mesh of this many devices."""
    if available % (asked.replicate * asked.tp) == 0:
        return f"mesh.fsdp={available // (asked.replicate * asked.tp)}"
    fsdp = f"mesh.fsdp={max(1, available // asked.tp)}"
    return fsdp if asked.replicate == 1 else f"{fsdp} mesh.replicate=1"
