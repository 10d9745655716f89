"""The processes of a run under PyTorch, as `torchrun` (or anything that sets its variables) started them."""

import os
from concurrent.futures import Future
from datetime import timedelta
from functools import cache
from itertools import count
from threading import Thread
from typing import Any

import torch.distributed as dist
from torch._C._distributed_c10d import PrefixStore
from torch.distributed.rendezvous import rendezvous

from workings.engines.base import Processes
from workings.engines.hardware_probe import peer_timeout, started_apart
from workings.errors import RequestError

ANSWER_TIMEOUT = 10.0
"""Seconds in which the store must answer, in addition to the seconds that it was asked to wait."""
SILENT = "process 0, which has the store, does not answer"
VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_numbers = count()


def world_size() -> int:
    """Number of processes that a launcher started; 1 without a launcher."""
    return int(os.environ.get("WORLD_SIZE", "1"))


class TorchProcesses:
    """`workings.engines.base.Processes` on the launcher's store and a gloo group of the hosts."""

    def __init__(self, store: Any, index: int, number: int) -> None:
        self.index, self.count, self.timeout = index, number, peer_timeout()
        self._store = store
        self._group: Any = None
        self._silent = False
        """Whether the store once did not answer. It is not asked again."""

    def set(self, key: str, value: bytes) -> None:
        """Store a value. Raises `RuntimeError` if the store once did not answer."""
        if self._silent:
            raise RuntimeError(SILENT)
        self._store.set(key, value)

    def wait(self, key: str, seconds: float) -> bytes | None:
        """A value as soon as it is there, or None. Raises `RuntimeError` if the store does not answer."""
        if self._silent:
            raise RuntimeError(SILENT)
        found = Future[bytes | None]()

        def look() -> bytes | None:
            if not self._store.check([key]):
                if not seconds:
                    return None
                try:
                    self._store.wait([key], timedelta(seconds=seconds))
                except dist.DistStoreError:  # the value did not come in time
                    return None
            return bytes(self._store.get(key))

        def run() -> None:
            try:
                found.set_result(look())
            except Exception as error:  # noqa: BLE001, it is raised in the other thread
                found.set_exception(error)

        # In a thread: while process 0, which has the store, is stopped, PyTorch's client ignores its own timeout.
        Thread(target=run, daemon=True).start()
        try:
            return found.result(seconds + ANSWER_TIMEOUT)
        except TimeoutError as error:
            self._silent = True
            raise RuntimeError(SILENT) from error

    def broadcast(self, value: Any) -> Any:
        """Process 0's value in every process, sent between hosts and not through a GPU."""
        # Made now, because the group of the devices must be open in all processes before.
        self._group = self._group or dist.new_group(backend="gloo", timeout=timedelta(seconds=self.timeout))
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._group)
        return values[0]

    def shutdown(self, *, stopped: bool) -> None:
        """End the process groups of hosts and devices."""
        if dist.is_initialized():
            dist.destroy_process_group()


@cache
def _store() -> Any:
    """The launcher's store. Raises `RequestError` if the processes do not meet."""
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        raise RequestError(f"WORLD_SIZE={world_size()} needs {', '.join(missing)}", "the variables of a launcher",
                           f"torchrun --nproc-per-node {world_size()} -m workings train …")
    seconds = peer_timeout()
    try:
        store, _, _ = next(iter(rendezvous("env://", timeout=timedelta(seconds=seconds))))
    except RuntimeError as error:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise RequestError(f"{world_size()} processes did not meet at {address}: {str(error).splitlines()[0][:200]}",
                           f"all of them started within {seconds:.0f} seconds, and a port that is free on the first "
                           "host", "another MASTER_PORT, or the same command on every host") from error
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store


def _prefixed(kind: str) -> PrefixStore:
    """A part of the store for the next run or group. All processes count alike, so they agree on its name."""
    # After a restart torchrun's store still has the values of the earlier processes.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"workings/{kind}/{attempt}/{next(_numbers)}", _store())


def join() -> Processes | None:
    """The processes of a new run; None for a single process."""
    if "WORLD_SIZE" not in os.environ and (several := started_apart()):
        raise RequestError(f"{several} started several processes without WORLD_SIZE",
                           "torchrun, which brings the processes of PyTorch together",
                           "torchrun … -m workings train …, or WORLD_SIZE=1 for a separate run in each process")
    if world_size() == 1:
        return None
    return TorchProcesses(_prefixed("run"), int(os.environ["RANK"]), world_size())


def open_group(platform: str) -> int:
    """Open the process group of the devices, unless the program has done so; returns this process's rank."""
    if not dist.is_initialized():
        dist.init_process_group("nccl" if platform == "gpu" else "gloo", store=_prefixed("group"),
                                rank=int(os.environ["RANK"]), world_size=world_size(),
                                timeout=timedelta(seconds=peer_timeout()))
    return dist.get_rank()
