"""The processes of a run under PyTorch: as many as `torchrun` (or anything that sets its variables) started."""

import os
from datetime import timedelta
from functools import cache
from itertools import count
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from workings.engines.base import Processes
from workings.errors import RequestError

VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_numbers = count()


def world_size() -> int:
    """Number of processes that a launcher started; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


class TorchProcesses:
    """`workings.engines.base.Processes` on the launcher's store."""

    def __init__(self, store: Any, other: Any, index: int, number: int) -> None:
        """``other``: a second connection to the same store, for threads: a blocking wait holds the first one."""
        self.index = index
        self.count = number
        self._store = store
        self._other = other

    def set(self, key: str, value: bytes) -> None:
        """Store a value."""
        self._other.set(key, value)

    def get(self, key: str) -> bytes | None:
        """The value of a key, if there is one."""
        return bytes(self._other.get(key)) if self._other.check([key]) else None

    def wait(self, key: str, seconds: float) -> bytes | None:
        """A value as soon as it is there."""
        try:
            self._store.wait([key], timedelta(seconds=seconds))
        except dist.DistStoreError:  # in time; a broken connection is another error
            return None
        return bytes(self._store.get(key))

    def delete(self, key: str) -> None:
        """Remove a value."""
        self._other.delete_key(key)

    def shutdown(self) -> None:
        """End the process group of the devices."""
        if dist.is_initialized():
            dist.destroy_process_group()


@cache
def _stores() -> tuple[Any, Any]:
    """Two connections to the launcher's store."""
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        raise RequestError(f"WORLD_SIZE={world_size()} without {', '.join(missing)}", "the variables of a launcher",
                           f"torchrun --nproc-per-node {world_size()} -m workings train …")
    store, _, _ = next(iter(rendezvous("env://", timeout=timedelta(minutes=10))))
    inner = store
    while isinstance(inner, PrefixStore):
        inner = inner.underlying_store
    return inner, inner.clone()


def join() -> Processes | None:
    """The processes of one run; each call begins a run of its own."""
    if world_size() == 1:
        return None
    store, other = _stores()
    # Every process counts the same runs in the same order, so they agree on the name without a word.
    name = f"workings/run/{next(_numbers)}"
    return TorchProcesses(PrefixStore(name, store), PrefixStore(name, other), int(os.environ["RANK"]),
                          world_size())


def open_group(platform: str) -> int:
    """Begin to compute together, unless the program has done so itself; this process's rank."""
    if not dist.is_initialized():
        name = f"workings/group/{next(_numbers)}"
        # A prefix of its own keeps the group's keys apart from those of the runs.
        dist.init_process_group("nccl" if platform == "gpu" else "gloo", store=PrefixStore(name, _stores()[0]),
                                rank=int(os.environ["RANK"]), world_size=world_size())
    return dist.get_rank()
