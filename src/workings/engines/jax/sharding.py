"""Where rows and weights lie: one mesh with the axes ``fsdp`` (rows and parameters) and ``tp`` (matrices)."""

from dataclasses import dataclass
from typing import Any, Literal

import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from workings.errors import RequestError
from workings.models.weights import EMBEDDING, HEAD

P = PartitionSpec
FSDP, TP = "fsdp", "tp"
ROW_WISE = ("self_attn.o_proj", "mlp.down_proj")
"""Matrices whose input is what another matrix split over ``tp``: they are split over ``tp`` by their input."""


@dataclass(frozen=True)
class Layout:
    """The mesh, and the place of every kind of array on it."""

    mesh: Mesh

    @property
    def size(self) -> int:
        """Number of devices."""
        return int(self.mesh.size)

    @property
    def fsdp(self) -> int:
        """Devices over which rows are split."""
        return int(self.mesh.shape[FSDP])

    @property
    def tp(self) -> int:
        """Devices over which matrices are split."""
        return int(self.mesh.shape[TP])

    def place(self, *spec: Any) -> NamedSharding:
        """A sharding on this mesh."""
        return NamedSharding(self.mesh, P(*spec))

    def rows(self, x: jax.Array) -> jax.Array:
        """Activations ``[B, ...]`` stay split by row; without this the compiler may gather the whole batch."""
        if self.size == 1:
            return x
        return jax.lax.with_sharding_constraint(x, self.place(FSDP))

    def inner(self, x: jax.Array) -> jax.Array:
        """Activations inside a layer: split by row, the other axes as the compiler likes (``tp`` splits heads)."""
        if self.size == 1:
            return x
        free = [P.UNCONSTRAINED] * (x.ndim - 1)
        return jax.lax.with_sharding_constraint(x, self.place(FSDP, *free))

    def splits_vocabulary(self, vocab_size: int) -> bool:
        """Whether each device holds its own part of the embedding (it comes out even on more than one device)."""
        return self.size > 1 and vocab_size % self.size == 0

    def batch(self) -> NamedSharding:
        """Place of a step's arrays ``[A, B, S]``."""
        return self.place(None, FSDP)

    def everywhere(self) -> NamedSharding:
        """A full copy on every device."""
        return self.place()

    def spec(self, name: str, size: tuple[int, ...]) -> PartitionSpec:
        """Partition of a parameter without its layer axis, by its Hugging Face name. Vectors are copied.

        An axis that a mesh axis does not divide is not split (`describe` in the engine lists such tensors).
        """
        if len(size) < 2:
            return P()
        if name in (EMBEDDING, HEAD):
            return P((FSDP, TP), None) if size[0] % self.size == 0 else P()
        axes = (FSDP, TP) if name.removesuffix(".weight") in ROW_WISE else (TP, FSDP)
        return P(*(axis if length % self.mesh.shape[axis] == 0 else None
                   for axis, length in zip(axes, size, strict=True)))

    def params(self, tree: dict[str, Any]) -> dict[str, Any]:
        """Shardings of a tree of parameters (or of arrays of the same names and shapes)."""
        placed: dict[str, Any] = {
            name: NamedSharding(self.mesh, self.spec(name, x.shape)) for name, x in tree.items() if name != "layers"}
        placed["layers"] = {name: self.place(None, *self.spec(name, x.shape[1:])) for name, x in tree["layers"].items()}
        return placed


def make_layout(devices: tuple[jax.Device, ...], fsdp: int | Literal["auto"], tp: int) -> Layout:
    """The mesh for a request.

    ``auto`` takes all devices that ``tp`` leaves; on a CPU, where several devices are a
    simulation, it takes one.

    Raises:
        RequestError: more devices asked for than there are, or a split that does not come out even.
    """
    there = len(devices)
    share = fsdp if isinstance(fsdp, int) else 1 if devices[0].platform == "cpu" else max(1, there // tp)
    if share * tp > there:
        raise RequestError(f"mesh.fsdp x mesh.tp = {share} x {tp} = {share * tp}",
                           f"at most {there} devices, which are here",
                           f"mesh.fsdp={max(1, there // tp)}")
    grid = np.array(devices[:share * tp]).reshape(share, tp)
    return Layout(Mesh(grid, (FSDP, TP)))
