"""The processes of a run under PyTorch: as many as `torchrun` (or anything that sets its variables) started."""

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
"""Seconds in which a store that is asked has to answer, after those that it may wait."""
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

    def set(self, key: str, value: bytes) -> None:
        """Store a value. Raises `RuntimeError` if the store did not answer before."""
        if self._silent:
            raise RuntimeError(SILENT)
        self._store.set(key, value)

    def wait(self, key: str, seconds: float) -> bytes | None:
        """A value as soon as it is there. Raises `RuntimeError` if the store does not answer.

        The store is part of process 0. While that process is stopped (SIGSTOP), PyTorch's client waits for it without
        an end and ignores its timeout, so another thread looks. Once it was silent, it is not asked again.
        """
        if self._silent:
            raise RuntimeError(SILENT)
        found = Future[bytes | None]()

        def look() -> bytes | None:
            if not self._store.check([key]):
                if not seconds:
                    return None
                try:
                    self._store.wait([key], timedelta(seconds=seconds))
                except dist.DistStoreError:  # in time; a broken connection is another error
                    return None
            return bytes(self._store.get(key))

        def run() -> None:
            try:
                found.set_result(look())
            except Exception as error:  # noqa: BLE001, it is raised in the other thread
                found.set_exception(error)

        Thread(target=run, daemon=True).start()
        try:
            return found.result(seconds + ANSWER_TIMEOUT)
        except TimeoutError as error:
            self._silent = True
            raise RuntimeError(SILENT) from error

    def broadcast(self, value: Any) -> Any:
        """Process 0's value, in every process; between hosts and never through a card."""
        # Made by the first broadcast, when the group of the devices is open in all processes.
        self._group = self._group or dist.new_group(backend="gloo", timeout=timedelta(seconds=self.timeout))
        values = [value]
        dist.broadcast_object_list(values, src=0, group=self._group)
        return values[0]

    def shutdown(self, *, stopped: bool) -> None:
        """End the process groups of hosts and devices."""
        del stopped
        if dist.is_initialized():
            dist.destroy_process_group()


@cache
def _store() -> Any:
    """The launcher's store."""
    missing = [name for name in VARIABLES if name not in os.environ]
    if missing:
        raise RequestError(f"WORLD_SIZE={world_size()} needs {', '.join(missing)}", "the variables of a launcher",
                           f"torchrun --nproc-per-node {world_size()} -m workings train …")
    seconds = peer_timeout()
    try:
        store, _, _ = next(iter(rendezvous("env://", timeout=timedelta(seconds=seconds))))
    # A port that is taken, an address that does not answer, fewer processes than were announced.
    except RuntimeError as error:
        address = f"{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}"
        raise RequestError(f"{world_size()} processes did not meet at {address}: {str(error).splitlines()[0][:200]}",
                           f"all of them started within {seconds:.0f} seconds, and a port that is free on the first "
                           "host", "another MASTER_PORT, or the same command on every host") from error
    while isinstance(store, PrefixStore):
        store = store.underlying_store
    return store


def _prefixed(kind: str) -> PrefixStore:
    """A part of the store for the next run or group; processes count alike, so they agree on its name."""
    # Where torchrun has restarted the processes, its store still holds what earlier ones stored.
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    return PrefixStore(f"workings/{kind}/{attempt}/{next(_numbers)}", _store())


def join() -> Processes | None:
    """The processes of one run; each call begins its own run."""
    if "WORLD_SIZE" not in os.environ and (several := started_apart()):
        raise RequestError(f"{several} started several processes without WORLD_SIZE",
                           "torchrun, which brings the processes of PyTorch together",
                           "torchrun … -m workings train …, or WORLD_SIZE=1 for a separate run in each process")
    if world_size() == 1:
        return None
    return TorchProcesses(_prefixed("run"), int(os.environ["RANK"]), world_size())


def open_group(platform: str) -> int:
    """Begin to compute together, unless the program has done so itself; this process's rank."""
    if not dist.is_initialized():
        dist.init_process_group("nccl" if platform == "gpu" else "gloo", store=_prefixed("group"),
                                rank=int(os.environ["RANK"]), world_size=world_size(),
                                timeout=timedelta(seconds=peer_timeout()))
    return dist.get_rank()
