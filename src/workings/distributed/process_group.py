"""The process group of one run: its coordinator, its workers, how they start and end, and how a failure spreads.

Process 0 is the coordinator: it owns the run directory, the display and every decision. The workers make its calls
(`workings.distributed.rpc`). None may wait for ever for one that is gone: a process that fails stores why, and a
process that is still stuck in a call some time later ends itself. A process that is killed outright takes its
launcher's other processes with it, or its connections, which ends the call that the others are in.
"""

import json
import os
import sys
import threading
import time
import zlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

from workings.distributed.rpc import (
    FAILURE_KEY,
    LAST_CALL,
    CoordinatorEngine,
    PeerFailed,
    WorkerEngine,
    raising_peer_failures,
    read_call,
    write_failure,
)
from workings.engines.base import DistributedEngine, Engine, JoiningEngine, Processes
from workings.engines.hardware_probe import launched
from workings.engines.registry import find_engine
from workings.errors import RequestError, TrainingFailed, WorkingsError

STUCK_TIMEOUT = 20.0
"""Seconds from another process's failure until a process that is stuck in a call ends itself."""
WAIT_INTERVAL, WATCH_INTERVAL = 1.0, 2.0
"""Seconds between two looks for a failure: by a process that waits, and by the thread beside one that computes."""
READY_TIMEOUT, SHUTDOWN_TIMEOUT = 1800.0, 5.0
"""Seconds in which all processes must be ready, and in which they must have read the last call."""
STOP_KEY = "stop"
"""Key that a process sets when it is asked to stop."""
SHARE_CALL = "share"
"""Name of the call by which every worker computes its share of something that no engine computes."""
ComputeShare = Callable[[Sequence[Any]], list[Any]]
"""From JSON values to one JSON value each, which depends on nothing else. May raise `TrainingFailed`."""
Gather = Callable[[Sequence[Any]], list[Any]]
"""From the results of the coordinator's own share to those of all values in their order, once all are there."""


class ProcessGroup:
    """The processes of a run, from before the first file is read until the last answer; alone it does nothing."""

    def __init__(self, processes: Processes | None) -> None:
        self._processes = processes
        self.count = processes.count if processes else 1
        self.index = processes.index if processes else 0
        self.outcome: dict[str, Any] = {}
        """Values that the coordinator sends to the workers with the last call."""
        self._coordinator: CoordinatorEngine | None = None
        self._in_call = False
        self._stop_sent = False
        self._shares = 0
        self._failed_share: BaseException | None = None
        """What ended the thread that computes a worker's share."""
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._watch_failures, name="watch over the other processes", daemon=True)

    @classmethod
    def of(cls, engine: str, device: str) -> "ProcessGroup":
        """Meet the processes that a launcher started beside this one.

        Raises:
            RequestError: several were started, and the engine cannot use them.
        """
        engine_class: object = find_engine(engine).engine
        if isinstance(engine_class, JoiningEngine):
            return cls(engine_class.join(device))
        # Each process would train the same run as if it were alone, and write into the same directory.
        if several := launched():
            raise RequestError(f"engine: {engine} in several processes ({several})", "an engine that runs in several: "
                               "jax or torch", "one process, or engine=torch")
        return cls(None)

    @property
    def is_coordinator(self) -> bool:
        """Whether this process writes and decides."""
        return self.index == 0

    def __enter__(self) -> "ProcessGroup":
        if self._processes:
            self._watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if not self._processes:
            return
        # From here on the watch must not end this process, which is about to wait for others.
        self._done.set()
        self._watch.join()
        try:
            self._shutdown(self._processes, error)
        except RuntimeError:  # the store is gone with the process that kept it, and so is whoever would read this
            if error is None:
                raise

    def _shutdown(self, processes: Processes, error: BaseException | None) -> None:
        """Store the failure or send the last call, and wait until every process has read it."""
        broken = self._coordinator is not None and self._coordinator.broken
        # A failure that came from another process is in the store already, under its own index and words.
        if error is not None and not isinstance(error, PeerFailed):
            processes.set(FAILURE_KEY, write_failure(self.index, error))
        # The loop has made an outcome of the failure (memory ran out), but workers may be stuck in that call: they
        # would never read a last one, so they are told that the run has failed.
        elif broken:
            processes.set(FAILURE_KEY, write_failure(0, WorkingsError(str(self.outcome.get("reason", "stopped")))))
        elif self._coordinator is not None and error is None:
            self._coordinator.send(LAST_CALL, self.outcome)
        # After the failure or the last call: whoever sees this key will find those.
        processes.set(f"shutdown/{self.index}", b"")
        if isinstance(error, PeerFailed) and not self.is_coordinator:
            # A launcher ends all processes with the first that fails: let that be the one that failed by itself.
            time.sleep(SHUTDOWN_TIMEOUT)
        if self.is_coordinator:  # the store may live in this process
            limit = time.monotonic() + SHUTDOWN_TIMEOUT
            for index in range(1, self.count):
                processes.wait(f"shutdown/{index}", max(0.1, limit - time.monotonic()))
        # Leaving the group together needs every process; after a failure each ends as it is.
        if error is None and not broken:
            processes.shutdown()

    def _watch_failures(self) -> None:
        """End this process where it is stuck in a call after another one has failed."""
        assert self._processes
        since = 0.0
        while not self._done.wait(WATCH_INTERVAL):
            try:
                failure = self._processes.get(FAILURE_KEY)
            # The store is gone, and with it whatever could be read; the main thread meets that error itself.
            except RuntimeError:
                return
            stuck = self._in_call or (self._coordinator is not None and self._coordinator.in_call)
            if failure is None or not stuck:
                since = 0.0
            # The first look at a failure starts a clock: most calls break by themselves in this time.
            elif not since:
                since = time.monotonic()
            elif time.monotonic() - since > STUCK_TIMEOUT:
                sys.stderr.write(f"process {self.index} ends: {PeerFailed(failure)}\n")
                sys.stderr.flush()
                # An exception would end this thread alone, while the main thread stays inside of a library's call.
                os._exit(1)

    def agree(self, same: dict[str, Any], own: dict[str, Any]) -> list[dict[str, Any]]:
        """Make sure that all processes have prepared the same run.

        Args:
            same: what must be equal in all.
            own: facts about this process alone.

        Returns:
            The coordinator gets ``own`` of all processes, by index; a worker gets its own only.

        Raises:
            RequestError: another process has other data, another recipe or other versions; the difference is named.
        """
        if self._processes and not self.is_coordinator:
            self._processes.set(f"ready/{self.index}", json.dumps({"same": same, "own": own}).encode())
        facts = [own]
        for index in range(1, self.count if self.is_coordinator else 0):
            # The coordinator alone compares; the others hear of a difference as its failure.
            theirs = json.loads(self._wait(f"ready/{index}", READY_TIMEOUT))
            for key in same:
                if theirs["same"][key] != same[key]:
                    raise RequestError(f"process {index} with {key}: {theirs['same'][key]}; process 0 has {same[key]}",
                                       "the same recipe, data and versions in all processes",
                                       "the same command on every machine, with the same files")
            facts.append(theirs["own"])
        return facts

    def coordinate(self, engine: Engine) -> Engine:
        """The engine as the coordinator calls it; unchanged where there are no workers."""
        if not self._processes:
            return engine
        self._coordinator = CoordinatorEngine(_distributed(engine), self._processes)
        return self._coordinator

    def shared(self, task: str, values: Sequence[Any], compute: ComputeShare) -> list[Any]:
        """What ``compute`` makes of all values, of which each process computes a share; for the coordinator.

        Arguments and errors are those of `share_out`; ``compute`` is for the coordinator's own share.
        """
        own, gather = self.share_out(task, values)
        return gather(compute(own))

    def share_out(self, task: str, values: Sequence[Any]) -> tuple[Sequence[Any], Gather]:
        """Have each worker compute its share of the values, beside the calls that follow; for the coordinator.

        Args:
            task: by this name a worker knows what to compute (see `work`).
            values: JSON values.

        Returns:
            The coordinator's own share, and a function that waits for all results. It raises `TrainingFailed` where
            what a worker computes raised it, and `WorkingsError` where another process failed or is gone.
        """
        if not self._processes:
            return values, list
        assert self._coordinator
        processes = self._processes
        self._shares += 1
        number, size = self._shares, -(-len(values) // self.count)
        for index in range(1, self.count):
            share = list(values[index * size:(index + 1) * size])
            processes.set(f"share/{number}/{index}", _to_bytes(share))
        self._coordinator.send(SHARE_CALL, {"task": task, "number": number})

        def gather(own: Sequence[Any]) -> list[Any]:
            results = list(own)
            for index in range(1, self.count):
                key = f"result/{number}/{index}"
                result = _from_bytes(self._wait(key, 0.0))
                processes.delete(key)
                if "problem" in result:
                    raise TrainingFailed(result["problem"])
                results += result["values"]
            return results

        return values[:size], gather

    def _begin_share(self, number: int, compute: ComputeShare, pool: ThreadPoolExecutor) -> None:
        """Have a worker's share of what `share_out` was asked for computed in the pool's thread."""
        assert self._processes
        processes, key = self._processes, f"share/{number}/{self.index}"
        values = _from_bytes(self._wait(key, 0.0))
        processes.delete(key)

        def run() -> None:
            result = dict[str, Any]()
            try:
                try:
                    result["values"] = compute(values)
                # The coordinator ends the run because of it, as if it had computed that share itself.
                except TrainingFailed as error:
                    result["problem"] = str(error)
                processes.set(f"result/{number}/{self.index}", _to_bytes(result))
            except BaseException as error:  # noqa: BLE001 - raised by the main thread, which ends this process
                self._failed_share = error

        pool.submit(run)

    def work(self, engine: Engine, weights: Path | None, stop_requested: Callable[[], bool],
             tasks: Mapping[str, ComputeShare] | None = None) -> dict[str, Any]:
        """Make the coordinator's calls until the last one; returns the values of that one, its `outcome`.

        Args:
            engine: of this process.
            weights: where this process has the weights that the run starts from.
            stop_requested: whether this process was asked to stop, which is for the coordinator to decide.
            tasks: what this process computes a share of (see `share_out`), by name.

        Raises:
            WorkingsError: another process failed or is gone. What a share raises ends this process as well.
        """
        # A thread, because the coordinator calls engines while shares are computed. Nobody waits for it at the end.
        pool = ThreadPoolExecutor(1)
        try:
            return self._work(WorkerEngine(_distributed(engine), weights), stop_requested, tasks or {}, pool)
        finally:
            pool.shutdown(wait=False, cancel_futures=True)

    def _work(self, worker: WorkerEngine, stop_requested: Callable[[], bool], tasks: Mapping[str, ComputeShare],
              pool: ThreadPoolExecutor) -> dict[str, Any]:
        assert self._processes
        number = 0
        while True:
            number += 1
            # Both sides count calls from 1, so a number names the next one. There is no time limit: between two calls
            # the coordinator may score items for hours.
            name, values, arrays = read_call(self._wait(f"call/{number}", 0.0, stop_requested))
            if name == LAST_CALL:
                return values
            worker.forget(values["dropped"])
            if name == SHARE_CALL:
                self._begin_share(values["number"], tasks[values["task"]], pool)
                self._forward_stop(stop_requested)
                continue
            # Set after the wait, which notices failures by itself and is never stuck.
            self._in_call = True
            try:
                with raising_peer_failures(self._processes):
                    worker.dispatch(name, values, arrays)
            finally:
                self._in_call = False
            self._forward_stop(stop_requested)

    def stop_requested(self, here: bool) -> bool:
        """Whether this process or any other was asked to stop."""
        return here or (self._processes is not None and self._processes.get(STOP_KEY) is not None)

    def _forward_stop(self, stop_requested: Callable[[], bool]) -> None:
        """Tell the coordinator once that this process was asked to stop."""
        if self._processes and not self._stop_sent and stop_requested():
            self._stop_sent = True
            self._processes.set(STOP_KEY, b"")

    def _wait(self, key: str, limit: float, stop_requested: Callable[[], bool] = lambda: False) -> bytes:
        """A value of the store, waiting as long as no process fails; with a ``limit``, at most so many seconds."""
        assert self._processes
        began = time.monotonic()
        while True:
            if self._failed_share is not None:
                raise self._failed_share
            try:
                if (value := self._processes.wait(key, WAIT_INTERVAL)) is not None:
                    return value
                # The value is asked for before the failure: a last call that is there already is still read.
                failure = self._processes.get(FAILURE_KEY)
                self._forward_stop(stop_requested)
            except RuntimeError as error:
                raise WorkingsError("another process is gone, and with it the connection of all") from error
            if failure is not None:
                raise PeerFailed(failure)
            if limit and time.monotonic() - began > limit:
                raise WorkingsError(f"no {key} after {limit:.0f} seconds: another process is gone or still prepares")


def _to_bytes(value: Any) -> bytes:
    """A JSON value for the store, compressed the fastest way as in `write_call`: whoever waits for it does nothing."""
    return zlib.compress(json.dumps(value).encode(), 1)


def _from_bytes(data: bytes) -> Any:
    """What `_to_bytes` wrote."""
    return json.loads(zlib.decompress(data))


def _distributed(engine: Engine) -> DistributedEngine:
    """The engine as one whose steps several processes take together. Raises `RequestError` where it lacks a method."""
    if not isinstance(engine, DistributedEngine):
        raise RequestError(f"engine: {engine.name} in several processes",
                           "an engine with the methods of `workings.engines.base.DistributedEngine`", "one process")
    return engine
