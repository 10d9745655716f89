"""Several processes, one per GPU: each computes some rows, and FSDP2 (`fully_shard`) splits parameters and moments.

A parameter is split along its first axis, as by `torch.chunk`. A layer's parts are gathered while the layer computes.
Updates see a process's own parts only, so their code is the same on one device and on many.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch._subclasses.fake_tensor import unset_fake_temporarily
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard
from torch.distributed.tensor import DTensor
from transformers import PreTrainedModel

from workings.engines.base import EngineRequest, MeshShape
from workings.engines.refusals import refuse_uneven_rows
from workings.engines.torch.optimizers import OPTIMIZERS
from workings.engines.torch.processes import open_group, world_size
from workings.errors import RequestError

REPLICATED_SLOTS = {slot for optimizer in OPTIMIZERS.values() for slot in optimizer.replicated_slots}
SPLIT_OPTIMIZERS = tuple(name for name, optimizer in OPTIMIZERS.items() if optimizer.splits_by_rows)


@dataclass(frozen=True)
class ProcessMesh:
    """Position of this process among those that share a step."""

    fsdp: int = 1
    """Processes that split the parameters of one copy."""
    replicate: int = 1
    """Copies of the parameters. The first ``fsdp`` processes have the first copy."""
    rank: int = 0

    @property
    def processes(self) -> int:
        """Processes that share the rows."""
        return self.replicate * self.fsdp

    @property
    def shape(self) -> MeshShape:
        """The mesh as all engines describe it."""
        return MeshShape(self.fsdp, 1, self.replicate)

    def rows(self, count: int) -> slice:
        """This process's rows of ``count`` rows. Raises `RequestError` if the processes cannot have equally many."""
        refuse_uneven_rows(count, self.shape)
        own = count // self.processes
        return slice(self.rank * own, (self.rank + 1) * own)

    def sum(self, x: Tensor) -> Tensor:
        """Sum over all processes."""
        if self.processes > 1:
            x = x.clone()  # `all_reduce` overwrites its argument
            dist.all_reduce(x)
        return x

    def sum_of_a_copy(self, x: Tensor) -> Tensor:
        """Sum over the processes of one copy. The sum must be the same in all copies."""
        # Summed over all processes, so that all copies get the same bits and stay equal.
        total = self.sum(x)
        if self.replicate == 1:
            return total
        return total / self.replicate if total.is_floating_point() else total // self.replicate

    def total(self, count: int, device: torch.device) -> int:
        """Sum of a number over all processes."""
        return int(self.sum(torch.tensor(count, device=device))) if self.processes > 1 else count

    def least(self, number: int, device: torch.device) -> int:
        """The smallest of all processes' numbers, so that they decide alike."""
        least = torch.tensor(number, device=device)
        if self.processes > 1:
            dist.all_reduce(least, dist.ReduceOp.MIN)
        return int(least)

    def joined(self, x: Tensor) -> Tensor:
        """``[processes * N, ...]``: the tensors ``[N, ...]`` of all processes in their order."""
        if self.processes == 1:
            return x
        parts = [torch.empty_like(x, memory_format=torch.contiguous_format) for _ in range(self.processes)]
        dist.all_gather(parts, x.contiguous())
        return torch.cat(parts)


def find_mesh(request: EngineRequest, platform: str) -> ProcessMesh:
    """The processes that `torchrun` started, or this one. Raises `RequestError` if the recipe asks for others."""
    world, copies = world_size(), request.mesh.replicate
    fsdp = max(1, world // copies) if request.mesh.fsdp == "auto" else request.mesh.fsdp
    mesh = ProcessMesh(fsdp=fsdp, replicate=copies)
    if mesh.processes != world:
        what = f"mesh.fsdp: {fsdp}" if copies == 1 else f"mesh.replicate x mesh.fsdp = {copies} x {fsdp}"
        raise RequestError(f"{what} needs {mesh.processes} processes, not {world}", "one process a device",
                           f"torchrun --nproc-per-node {mesh.processes}, or mesh.fsdp={world} mesh.replicate=1")
    if world == 1:
        return mesh
    refuse_unsplit(request, world)
    return replace(mesh, rank=open_group(platform))


def refuse_unsplit(request: EngineRequest, world: int) -> None:
    """Raises `RequestError` for what cannot be split among several processes."""
    refused = []
    if request.optimizer.name not in SPLIT_OPTIMIZERS:
        refused.append(f"optimizer.name: {request.optimizer.name}")
    if request.memory.optimizer_in_backward:
        refused.append("memory.optimizer_in_backward: true")
    if refused:
        raise RequestError(f"{', '.join(refused)} cannot be split among {world} processes",
                           " or ".join(SPLIT_OPTIMIZERS) + ", updated after backward",
                           "one process, or leave it out")


class FsdpRoot(nn.Module):
    """A module whose forward calls a function of the model, while FSDP has gathered embedding, last norm and head."""

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        self.model = model

    def forward(self, work: Callable[[PreTrainedModel], Any]) -> Any:
        """``work(model)``."""
        return work(self.model)


def per_layer_table(model: PreTrainedModel) -> nn.Embedding | None:
    """The frozen table of per-layer embeddings (Gemma 4 E2B and E4B); None in other models."""
    table: nn.Embedding | None = getattr(model.base_model, "embed_tokens_per_layer", None)
    return table


def split(model: PreTrainedModel, mesh: ProcessMesh, device: torch.device) -> FsdpRoot:
    """The model as an `FsdpRoot`, with its parameters (on the device ``meta``) split if ``mesh`` says so.

    Every process has matrices in four bits and the table of per-layer embeddings whole.
    """
    root = FsdpRoot(model)
    if mesh.fsdp == 1:
        return root
    with unset_fake_temporarily():  # a mesh reads its own numbers back, which fake tensors do not have
        if mesh.replicate == 1:
            devices = init_device_mesh(device.type, (mesh.fsdp,))
        else:  # `fully_shard` copies along the first dimension and splits along the second
            devices = init_device_mesh(device.type, (mesh.replicate, mesh.fsdp), mesh_dim_names=("replicate", "fsdp"))
    policy = MixedPrecisionPolicy(reduce_dtype=torch.float32)
    layers = next(x for x in model.base_model.children() if isinstance(x, nn.ModuleList))
    # Split, the table would be gathered whole for a lookup of a few rows.
    table = per_layer_table(model)
    ignored = None if table is None else {*table.parameters()}
    # Layers first: the root takes what is left, that is embedding, last norm and head.
    for module in (*layers, root):
        sharded: FSDPModule = fully_shard(module, mesh=devices, mp_policy=policy, ignored_params=ignored)
        # Losses are divided by the tokens of all processes, so gradients are summed, not averaged.
        sharded.set_force_sum_reduction_for_comms(True)
        sharded.set_gradient_divide_factor(1.0)
    return root


def sum_over_copies(mesh: ProcessMesh, params: Iterable[nn.Parameter]) -> None:
    """Sum the gradients of whole copies, in float32, once an update. Every process must call it."""
    if mesh.fsdp > 1 or mesh.replicate == 1:
        return
    for param in params:
        # A process whose rows have nothing to learn takes part with zeros.
        total = torch.zeros_like(param).float() if param.grad is None else param.grad.float().contiguous()
        dist.all_reduce(total)
        param.grad = total.to(param.dtype)


def release_gathered(root: nn.Module) -> None:
    """Free the gathered embedding, last norm and head, which a forward pass without a backward pass leaves behind.

    If they were read by `numpy()`, as for a checkpoint on a CPU, FSDP could not free their memory at the next step.
    """
    if isinstance(root, FSDPModule):
        root.reshard()


@contextmanager
def layers_stay_gathered(model: PreTrainedModel) -> Iterator[None]:
    """Inside, a layer that was gathered once stays whole, for many forward passes without a backward pass."""
    layers = [module for module in model.modules() if isinstance(module, FSDPModule)]
    for layer in layers:
        layer.set_reshard_after_forward(False, recurse=False)
    try:
        yield
    finally:
        for layer in layers:
            layer.set_reshard_after_forward(True, recurse=False)
            layer.reshard()


def part_bytes(whole: Tensor, like: Tensor, mesh: ProcessMesh) -> int:
    """Bytes of the largest part of a tensor on any process, if the tensor is split as ``like`` is.

    A moment is a part already, so only its first axis, which differs by process, is taken from ``like``.
    """
    if not isinstance(like, DTensor):
        return whole.nbytes
    return -(-like.shape[0] // mesh.fsdp) * prod(whole.shape[1:]) * whole.element_size()


def local(x: Tensor) -> Tensor:
    """This process's part of a tensor, sharing its memory."""
    held = x.detach()
    return held.to_local() if isinstance(held, DTensor) else held


def own_rows(like: Tensor) -> slice | None:
    """The rows of a whole tensor in this process's part of ``like``; None: all rows."""
    if not isinstance(like, DTensor):
        return None
    mesh, axis = like.device_mesh, like.device_mesh.ndim - 1
    count = -(-like.shape[0] // mesh.size(axis))  # as in `torch.chunk`: 7 rows of 5 processes are 2 2 2 1 0
    first = mesh.get_local_rank(axis) * count
    return slice(first, first + count)


def own_part(tensor: Tensor, like: Tensor) -> Tensor:
    """The part of a whole tensor with `own_rows`."""
    rows = own_rows(like)
    return tensor if rows is None else tensor[rows]


def gathered(x: Tensor) -> Tensor:
    """The whole tensor on every process; all of them must ask."""
    held = x.detach()
    return held.full_tensor() if isinstance(held, DTensor) else held


def as_split(moment: Tensor, slot: str, param: Tensor) -> Tensor:
    """A local moment as the distributed tensor that it is a part of; a whole moment is returned unchanged."""
    if not isinstance(param, DTensor) or slot in REPLICATED_SLOTS:
        return moment
    # Parts may differ in length, so `from_local` needs the whole size.
    size = torch.Size((param.shape[0], *moment.shape[1:]))
    stride = torch.empty(size, device="meta").stride()
    return DTensor.from_local(moment, param.device_mesh, param.placements, run_check=False, shape=size, stride=stride)
