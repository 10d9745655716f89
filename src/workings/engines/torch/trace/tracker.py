"""Logs when storages (the memory of tensors) appear and disappear while a program of fake or real tensors runs.

Two things would make a plain count wrong:

- Autograd adds a gradient in place if it alone holds the first one, but not while a dispatch mode watches. So
  `LiveStorages` does it. Otherwise a tied embedding would seem to need a second gradient.
- Some kernels of a GPU take memory that is no tensor. `_flash_backward` and `cublas_workspace` know its size, from the
  launch code of PyTorch (ATen). A trace runs the CPU's operators, whose outputs are the same.
"""

import weakref
from collections.abc import Iterable
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from workings.engines.torch import memory_regions
from workings.engines.torch.trace.allocator import Event, Log, rounded


def _flash_backward(query: Tensor) -> int:
    """Bytes of a GPU's flash attention in backward: float32 gradients of queries, and a number a query and head."""
    rows, heads, positions, head_size = query.shape
    return 4 * rows * heads * rounded(positions, 128) * (head_size + 1)  # the kernel computes blocks of 128 positions


def cublas_workspace(capability: str) -> int:
    """Bytes that cuBLAS gets from PyTorch's allocator for each thread that multiplies.

    ``:4096:2:16:8`` by default, 32 MiB on Hopper and Blackwell data-center GPUs (ATen/cuda/CublasHandlePool.cpp).
    """
    major = int(capability.split(".")[0]) if capability else 0
    return 32 * 2 ** 20 if major in (9, 10) else 4096 * 1024 * 2 + 16 * 1024 * 8


CONTEXT_BYTES = 400 * 2 ** 20
"""Memory that the CUDA driver takes for a process before the first tensor: an assumption."""
GATHERED, TRAVELLING = "gathered parameters", "gradients on their way to other processes"
COMMUNICATION = {"all_gather": GATHERED, "allgather": GATHERED, "split_with_sizes_copy": GATHERED,
                 "reduce_scatter": TRAVELLING, "chunk_cat": TRAVELLING}
"""Part of the name of an operator that communicates -> category of its tensors."""
ONLY_OWNER = 2
"""Use count of a storage, seen from inside a dispatch, that only one tensor has."""


class LiveStorage(NamedTuple):
    """A storage that has not disappeared: its number, which is never used twice, and its bytes."""

    key: int
    size: int
    reference: Any


class LiveStorages(TorchDispatchMode):
    """While entered, logs when a storage appears, is resized, or disappears.

    A tensor that several processes share counts with this process's part. ``on_card``: kernels' own memory counts too.
    """

    def __init__(self, *, on_card: bool = False) -> None:
        super().__init__()
        self.log, self._on_card = Log(), on_card
        self._live: dict[int, LiveStorage] = {}
        """By address."""
        self._count = 0
        self._existing: set[int] = set()
        """Addresses of storages that existed before the program."""

    def __enter__(self) -> "LiveStorages":
        # FSDP frees gathered layers by resizing their storages, without an operator.
        tracker, resize = self, torch.UntypedStorage.resize_

        def resized(storage: torch.UntypedStorage, size: int) -> torch.UntypedStorage:
            result = resize(storage, size)
            tracker._storage_seen(storage, GATHERED, "resize_")
            return result

        self._resize = resize
        torch.UntypedStorage.resize_ = resized  # type: ignore[method-assign, assignment]
        super().__enter__()
        return self

    def __exit__(self, kind: Any, error: Any, traceback: Any) -> None:
        torch.UntypedStorage.resize_ = self._resize  # type: ignore[method-assign]
        super().__exit__(kind, error, traceback)

    def hold(self, tensors: Iterable[Tensor], category: str) -> None:
        """Log tensors that exist already."""
        for x in tensors:
            self._storage_seen(_storage(x), category, "held")
            self._existing.add(_storage(x)._cdata)

    def _relabel(self, x: Tensor, category: str) -> None:
        """Give a live storage another category."""
        live = self._live.get(_storage(x)._cdata)
        if live is not None:
            self.log.events.append(Event(live.key, 0, category))

    def watch_gradients(self, parameters: Iterable[Tensor]) -> None:
        """Give gradients their category as soon as they are complete."""
        for param in parameters:
            if param.requires_grad:
                param.register_hook(lambda grad: self._relabel(grad, "gradients"))

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run one operator and look at what it returns."""
        if any(issubclass(kind, DTensor) for kind in types):
            return NotImplemented  # it comes back as operators on this process's part
        if self._adds_in_place(func, args, kwargs):
            torch.ops.aten.add_.Tensor(*args)
            return args[0]
        out = func(*args, **(kwargs or {}))
        name = str(func)
        category = _category()
        for x in tree_leaves(out):
            if isinstance(x, Tensor):
                self._storage_seen(_storage(x), category, name)
        if name.startswith(("c10d.", "fsdp.")):
            self._relabel_moved(name, args, kwargs)
        if self._on_card and func is torch.ops.aten._scaled_dot_product_flash_attention_for_cpu_backward.default:
            self._count += 1
            size = _flash_backward(args[1])
            self.log.events += [Event(self._count, size, "kernel workspace", name), Event(self._count, -size)]
            self.log.hidden[name] += 1
        return out

    def _relabel_moved(self, name: str, args: Any, kwargs: Any) -> None:
        """Relabel what an operator sends or receives, but not this process's own part of the state."""
        category = next((what for part, what in COMMUNICATION.items() if part in name), None)
        if category is None:
            return
        for x in tree_leaves((args, kwargs)):
            if isinstance(x, Tensor) and x.untyped_storage()._cdata not in self._existing:
                self._relabel(x, category)

    def _adds_in_place(self, func: Any, args: Any, kwargs: Any) -> bool:
        """Whether autograd itself is adding up two gradients and holds the first alone."""
        if func is not torch.ops.aten.add.Tensor or kwargs or not in_backward():
            return False
        # A second forward of checkpointing, or code of this engine within backward, adds other tensors.
        if torch.is_grad_enabled() or memory_regions.current():
            return False
        first, second = args
        alike = isinstance(second, Tensor) and first.shape == second.shape and first.dtype == second.dtype
        return (alike and first.is_contiguous()
                and torch._C._storage_Use_Count(first.untyped_storage()._cdata) == ONLY_OWNER)

    def _storage_seen(self, storage: torch.UntypedStorage, category: str, name: str) -> None:
        """Log a new or resized storage, and watch it."""
        address, size = storage._cdata, storage.nbytes()
        live = self._live.get(address)
        if live is not None:
            if live.size == size:
                return
            self._storage_gone(address, live.reference)  # resized: the old piece is given back
        if size == 0:
            return
        self._count += 1
        reference = weakref.ref(storage, partial(self._storage_gone, address))
        self._live[address] = LiveStorage(self._count, size, reference)
        self.log.events.append(Event(self._count, size, category, name))

    def _storage_gone(self, address: int, reference: Any) -> None:
        """Log that a storage has disappeared, unless a newer one has its address already."""
        live = self._live.get(address)
        if live is not None and live.reference is reference:
            self.log.events.append(Event(live.key, -live.size))
            del self._live[address]


def _storage(x: Tensor) -> torch.UntypedStorage:
    """Storage of this process's part of a tensor, found without running an operator."""
    return (x._local_tensor if isinstance(x, DTensor) else x).untyped_storage()


def in_backward() -> bool:
    """Whether autograd is running a backward pass."""
    return torch._C._current_graph_task_id() != -1


def _category() -> str:
    """Category of an operator's outputs, from the part of the step that runs it."""
    if memory_regions.current():
        return memory_regions.current()
    if not in_backward():
        return "activations"
    # Within backward only a checkpoint's second forward enables gradients.
    return "recomputed activations" if torch.is_grad_enabled() else "backward temporaries"
