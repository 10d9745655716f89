"""The process group of one run: how its processes meet, agree, stop, fail and part.

Process 0 owns the run directory, the display and every decision; the others make its calls of the engine. None waits
for ever.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from workings.distributed.calls import (
    FAILED,
    LeadingEngine,
    PeerFailed,
    explaining_failures,
    follow,
    wait_for,
    write_failure,
)
from workings.engines.base import DistributedEngine, Engine, JoiningEngine, Processes
from workings.engines.hardware_probe import launched
from workings.engines.registry import find_engine
from workings.errors import RequestError, WorkingsError

MAX_SHOWN = 4
"""Differences that are shown."""
READY_TIMEOUT, SHUTDOWN_TIMEOUT = 1800.0, 5.0
"""Seconds in which all processes must be ready, and in which they must have heard the end."""
STOP_KEY = "stop"
"""Key that a process sets when it is asked to stop."""


def facts_of(engine: Engine) -> dict[str, Any]:
    """Facts about an engine that must be equal in every process."""
    device = engine.describe()
    return {"platform": device.platform, "mesh": dict(device.mesh), "versions": dict(device.versions),
            "dtypes": dict(engine.dtypes())}


def differing(here: Any, there: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted keys with both values, down to the innermost mapping, such as ``recipe.training.learning_rate``."""
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        for key in sorted(here.keys() | there.keys()):
            yield from differing(here.get(key, "(absent)"), there.get(key, "(absent)"),
                                  f"{prefix}.{key}" if prefix else key)
    elif here != there:
        yield prefix, here, there


class ProcessGroup:
    """The processes of a run, from before the first file is read until the last answer; alone it does nothing."""

    def __init__(self, processes: Processes | None) -> None:
        self._processes = processes
        self.count = processes.count if processes else 1
        self.index = processes.index if processes else 0
        self.outcome: dict[str, Any] = {}
        """Values that process 0 sends to the others with the last call."""
        self._leading: LeadingEngine | None = None
        self._stop_sent = False
        self._agreements = 0

    @classmethod
    def of(cls, engine: str) -> "ProcessGroup":
        """Meet the processes that a launcher started. Raises `RequestError` if the engine cannot use them."""
        engine_class: object = find_engine(engine).engine
        if isinstance(engine_class, JoiningEngine):
            return cls(engine_class.join())
        # Each process would train the same run as if it were alone, and write into the same directory.
        if several := launched():
            raise RequestError(f"engine: {engine} does not run in several processes ({several})",
                               "an engine that does: "
                               "jax or torch", "one process, or engine=torch")
        return cls(None)

    @property
    def is_coordinator(self) -> bool:
        """Whether this process writes and decides."""
        return self.index == 0

    def __enter__(self) -> "ProcessGroup":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if not self._processes:
            return
        try:
            with explaining_failures(self._processes):
                self._part(self._processes, error)
        except WorkingsError:  # the others are gone, and so is everybody who would read of an error
            if error is None:
                raise

    def _part(self, processes: Processes, error: BaseException | None) -> None:
        """Store the failure or send the last call, and wait until every process has heard it."""
        broken = self._leading is not None and self._leading.failed
        if self._leading is not None:
            self._leading.end(None if error or broken else self.outcome)
        # A failure that came from another process is in the store already, under its own index and words.
        if error is not None and not isinstance(error, PeerFailed):
            processes.set(FAILED, write_failure(self.index, error))
        # The loop has made an outcome of the failure (memory ran out), but the others may be stuck in that call.
        elif broken:
            processes.set(FAILED, write_failure(0, WorkingsError(str(self.outcome.get("reason", "stopped")))))
        # After the failure or the last call: a process that reads this key will find those.
        processes.set(f"shutdown/{self.index}", b"")
        late = isinstance(error, PeerFailed) or self.outcome.get("status") in ("interrupted", "failed")
        if late and not self.is_coordinator:
            # A launcher ends all processes with the first that has another exit code than 0: let that be process 0, or
            # the one that failed by itself.
            time.sleep(SHUTDOWN_TIMEOUT)
        if self.is_coordinator:  # the store may be in this process
            limit = time.monotonic() + SHUTDOWN_TIMEOUT
            for index in range(1, self.count):
                processes.wait(f"shutdown/{index}", max(0.1, limit - time.monotonic()))
        # Leaving the group together needs every process; after a failure each ends as it is.
        if error is None and not broken:
            processes.shutdown(stopped=self.outcome.get("status") == "interrupted")

    def agree(self, same: dict[str, Any], own: dict[str, Any]) -> list[dict[str, Any]]:
        """Make sure that all processes have prepared the same run; all of them call it equally often.

        ``same`` must be equal in all, ``own`` are facts about this process alone; both are JSON values. Process 0 gets
        ``own`` of all processes, by index; another gets its own. Raises `RequestError` with every value that differs.
        """
        if not self._processes:
            return [own]
        self._agreements += 1
        ready, agreed = f"ready/{self._agreements}", f"agreed/{self._agreements}"
        if not self.is_coordinator:
            self._processes.set(f"{ready}/{self.index}", json.dumps({"same": same, "own": own}).encode())
            # Devices wait for each other from here on: not before process 0 has heard of all of them.
            wait_for(self._processes, agreed, READY_TIMEOUT)
            return [own]
        facts = [own]
        for index in range(1, self.count):
            theirs = json.loads(wait_for(self._processes, f"{ready}/{index}", READY_TIMEOUT))
            if different := [f"process {index} with {key}: {other}; process 0 has {own_value}"
                             for key, own_value, other in differing(same, theirs["same"])]:
                raise RequestError("; ".join(different[:MAX_SHOWN]),
                                   "the same recipe, data, weights and versions in all processes",
                                   "the same command on every machine, with the same files")
            facts.append(theirs["own"])
        self._processes.set(agreed, b"")
        return facts

    def coordinate(self, engine: Engine) -> Engine:
        """The engine as process 0 calls it; unchanged where there are no others."""
        if not self._processes:
            return engine
        self._leading = LeadingEngine(_distributed(engine), self._processes)
        return self._leading

    def work(self, engine: Engine, weights: Path | None, stop_requested: Callable[[], bool]) -> dict[str, Any]:
        """Make process 0's calls until the last one, as `follow`; returns the values of that one, its `outcome`.

        ``stop_requested``: whether this process was asked to stop, which is for process 0 to decide.
        """
        processes = self._processes
        assert processes

        def forward_stop() -> None:
            """Tell process 0 once that this process was asked to stop."""
            if not self._stop_sent and stop_requested():
                self._stop_sent = True
                processes.set(STOP_KEY, b"")

        self.outcome = follow(_distributed(engine), processes, weights, forward_stop)
        return self.outcome

    def stop_requested(self, here: bool) -> bool:
        """Whether this process or any other was asked to stop."""
        return here or (self._processes is not None and self._processes.wait(STOP_KEY, 0.0) is not None)


def _distributed(engine: Engine) -> DistributedEngine:
    """The engine as one whose steps several processes take together. Raises `RequestError` where it lacks a method."""
    if not isinstance(engine, DistributedEngine):
        raise RequestError(f"engine: {engine.name} does not run in several processes",
                           "an engine with the methods of `workings.engines.base.DistributedEngine`", "one process")
    return engine
