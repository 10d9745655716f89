"""The process group of a run: its processes meet, agree on the run, work together, and end together.

Process 0, the coordinator, has the run directory and the display, and makes all decisions. The others, the workers,
make its calls of the engine. No process waits without a time limit.
"""

import json
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any

from workings.distributed import calls
from workings.engines.base import DistributedEngine, Engine, JoiningEngine, Processes
from workings.engines.hardware_probe import launched
from workings.engines.registry import find_engine
from workings.errors import RequestError, WorkingsError

MAX_SHOWN = 4
"""The most differences that are shown."""
READY_TIMEOUT, SHUTDOWN_TIMEOUT = 1800.0, 5.0
"""Seconds to wait until all processes are ready, and until they have received the last call."""
STOP_KEY = "stop"
"""Key that a process sets when it is asked to stop."""


def facts_of(engine: Engine) -> dict[str, Any]:
    """Facts about an engine that must be equal in every process, as JSON values."""
    device = engine.describe()
    return {"platform": device.platform, "mesh": dict(device.mesh), "versions": dict(device.versions),
            "dtypes": dict(engine.dtypes())}


def differing(here: Any, there: Any, prefix: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Dotted keys of nested mappings with two different values, such as ``("recipe.seed", 0, 1)``."""
    if isinstance(here, Mapping) and isinstance(there, Mapping):
        for key in sorted(here.keys() | there.keys()):
            yield from differing(here.get(key, "(absent)"), there.get(key, "(absent)"),
                                  f"{prefix}.{key}" if prefix else key)
    elif here != there:
        yield prefix, here, there


class ProcessGroup:
    """The processes of a run as a context; with a single process (None) it does nothing."""

    def __init__(self, processes: Processes | None) -> None:
        self._processes = processes
        self.count = processes.count if processes else 1
        self.index = processes.index if processes else 0
        self.outcome: dict[str, Any] = {}
        """Values that process 0 sends to the others with the last call."""
        self._leading: calls.LeadingEngine | None = None
        self._stop_sent = False
        self._agreements = 0

    @classmethod
    def of(cls, engine: str) -> "ProcessGroup":
        """Connect to the processes that a launcher started. Raises `RequestError` if the engine cannot use them."""
        engine_class: object = find_engine(engine).engine
        if isinstance(engine_class, JoiningEngine):
            return cls(engine_class.join())
        if several := launched():
            raise RequestError(f"engine: {engine} does not run in several processes ({several})",
                               "an engine that does: jax or torch", "one process, or engine=torch")
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
            with calls.explaining_failures(self._processes):
                self._leave(self._processes, error)
        except WorkingsError:
            # After a failure of this process, the failure itself is the error to report.
            if error is None:
                raise

    def _leave(self, processes: Processes, error: BaseException | None) -> None:
        """Store the failure or send the last call, and wait until every process has received it."""
        call_failed = self._leading is not None and self._leading.failed
        if self._leading is not None:
            self._leading.end(None if error or call_failed else self.outcome)
        if error is not None and not isinstance(error, calls.PeerFailed):
            processes.set(calls.FAILED, calls.write_failure(self.index, error))
        elif call_failed:
            # The loop has turned the failure (memory ran out) into an outcome, but the others may wait in that call.
            stopped = WorkingsError(str(self.outcome.get("reason", "stopped")))
            processes.set(calls.FAILED, calls.write_failure(0, stopped))
        # A process that finds this key will also find the failure or the last call.
        processes.set(f"shutdown/{self.index}", b"")
        if self.is_coordinator:  # the store may be in this process
            limit = time.monotonic() + SHUTDOWN_TIMEOUT
            for index in range(1, self.count):
                processes.wait(f"shutdown/{index}", max(0.1, limit - time.monotonic()))
        elif isinstance(error, calls.PeerFailed) or self.outcome.get("status") in ("interrupted", "failed"):
            # A launcher ends all processes when the first one fails. That must be process 0 or the one that failed.
            time.sleep(SHUTDOWN_TIMEOUT)
        # Leaving the group needs every process; after a failure each process ends on its own.
        if error is None and not call_failed:
            processes.shutdown(stopped=self.outcome.get("status") == "interrupted")

    def agree(self, same: dict[str, Any], own: dict[str, Any]) -> list[dict[str, Any]]:
        """Make sure that all processes have prepared the same run. All processes must call it equally often.

        ``same``: JSON values that must be equal in all processes; ``own``: JSON values of this process. Returns ``own``
        of all processes, by index, in process 0, and of itself in the others. Raises `RequestError` for a difference.
        """
        if not self._processes:
            return [own]
        self._agreements += 1
        ready, agreed = f"ready/{self._agreements}", f"agreed/{self._agreements}"
        if not self.is_coordinator:
            self._processes.set(f"{ready}/{self.index}", json.dumps({"same": same, "own": own}).encode())
            calls.wait_for(self._processes, agreed, READY_TIMEOUT)
            return [own]
        facts = [own]
        for index in range(1, self.count):
            theirs = json.loads(calls.wait_for(self._processes, f"{ready}/{index}", READY_TIMEOUT))
            if different := [f"process {index} with {key}: {other}; process 0 has {own_value}"
                             for key, own_value, other in differing(same, theirs["same"])]:
                raise RequestError("; ".join(different[:MAX_SHOWN]),
                                   "the same recipe, data, weights and versions in all processes",
                                   "the same command on every machine, with the same files")
            facts.append(theirs["own"])
        self._processes.set(agreed, b"")
        return facts

    def coordinate(self, engine: Engine) -> Engine:
        """The engine that process 0 calls for all processes; the engine itself with a single process."""
        if not self._processes:
            return engine
        self._leading = calls.LeadingEngine(_distributed(engine), self._processes)
        return self._leading

    def work(self, engine: Engine, weights: Path | None, stop_requested: Callable[[], bool]) -> dict[str, Any]:
        """In a worker: make process 0's calls until the last one, and return the `outcome` (see `follow`)."""
        processes = self._processes
        assert processes

        def forward_stop() -> None:
            """Tell process 0 once that this process was asked to stop."""
            if not self._stop_sent and stop_requested():
                self._stop_sent = True
                processes.set(STOP_KEY, b"")

        self.outcome = calls.follow(_distributed(engine), processes, weights, forward_stop)
        return self.outcome

    def stop_requested(self, here: bool) -> bool:
        """Whether this process or any other was asked to stop."""
        return here or (self._processes is not None and self._processes.wait(STOP_KEY, 0.0) is not None)


def _distributed(engine: Engine) -> DistributedEngine:
    """The engine, if several processes can take its steps together. Raises `RequestError` if they cannot."""
    if not isinstance(engine, DistributedEngine):
        raise RequestError(f"engine: {engine.name} does not run in several processes",
                           "an engine with the methods of `workings.engines.base.DistributedEngine`", "one process")
    return engine
