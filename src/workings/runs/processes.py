"""The processes of one run, for as long as they need each other: who leads, who follows, and how a failure spreads.

Process 0 owns the run directory, the display and every decision (`runs/together.py`); the others compute with it. None
may wait for ever for one that is gone: whoever fails leaves a note on the board, and a process that is stuck in a call
some time after such a note ends itself. One that is killed outright takes its launcher's other processes with it, or
its connections, which ends the call that the others are in.
"""

import json
import os
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, cast

from workings.engines.base import DistributedEngine, Engine, Processes
from workings.engines.hardware_probe import launched
from workings.engines.registry import find_engine
from workings.errors import RequestError, WorkingsError
from workings.runs.together import (
    END,
    FAILED,
    FollowingEngine,
    LeadingEngine,
    OtherFailed,
    explained,
    failure_note,
    read_call,
)

GRACE = 20.0
"""Seconds from another's failure until a process that is stuck in a call ends itself."""
LOOK, WATCH = 1.0, 2.0
"""Seconds between two looks for a failure: of a process that waits, of the watch beside one that computes."""
PREPARING, PARTING = 1800.0, 5.0
"""Seconds in which all must be ready, and in which they must have read the end."""
STOP = "stop"
"""Key of the note of a process that was asked to stop."""


class Crew:
    """The processes of a run, from before the first file is read until the last answer; alone it does nothing."""

    def __init__(self, processes: Processes | None) -> None:
        self._processes = processes
        self.count = processes.count if processes else 1
        self.index = processes.index if processes else 0
        self.outcome: dict[str, Any] = {}
        """What process 0 tells the others about the end."""
        self._leading: LeadingEngine | None = None
        self._following = False
        self._told = False
        self._done = threading.Event()
        self._watch = threading.Thread(target=self._look_out, name="watch over the other processes", daemon=True)

    @classmethod
    def of(cls, engine: str, device: str) -> "Crew":
        """Meet the processes that a launcher started beside this one.

        Raises:
            RequestError: several were started, and the engine cannot use them.
        """
        found = find_engine(engine).engine
        if hasattr(found, "join"):
            return cls(cast(type[DistributedEngine], found).join(device))
        if several := launched():
            raise RequestError(f"engine: {engine} in several processes ({several})", "an engine that runs in several: "
                               "jax or torch", "one process, or engine=torch")
        return cls(None)

    @property
    def leads(self) -> bool:
        """Whether this process writes and decides."""
        return self.index == 0

    def __enter__(self) -> "Crew":
        if self._processes:
            self._watch.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        if not self._processes:
            return
        self._done.set()
        self._watch.join()
        try:
            self._part(self._processes, error)
        except RuntimeError:  # the board is gone with the process that kept it, and so is whoever would read this
            if error is None:
                raise

    def _part(self, processes: Processes, error: BaseException | None) -> None:
        broken = self._leading is not None and self._leading.broken
        if error is not None and not isinstance(error, OtherFailed):
            processes.put(FAILED, failure_note(self.index, error))
        elif broken:
            processes.put(FAILED, failure_note(0, WorkingsError(str(self.outcome.get("reason", "stopped")))))
        elif self._leading is not None and error is None:
            self._leading.tell(END, self.outcome)
        processes.put(f"bye/{self.index}", b"")
        if isinstance(error, OtherFailed) and not self.leads:
            time.sleep(PARTING)  # launchers end everybody with the first that fails: let that be the one that did
        if self.leads:  # it may be the keeper of the board
            limit = time.monotonic() + PARTING
            for index in range(1, self.count):
                processes.wait(f"bye/{index}", max(0.1, limit - time.monotonic()))
        if error is None and not broken:
            processes.leave()

    def _look_out(self) -> None:
        """End this process where it is stuck in a call after another one has failed."""
        assert self._processes
        since = 0.0
        while not self._done.wait(WATCH):
            try:
                note = self._processes.peek(FAILED)
            except RuntimeError:
                return
            stuck = self._following or (self._leading is not None and self._leading.inside)
            if note is None or not stuck:
                since = 0.0
            elif not since:
                since = time.monotonic()
            elif time.monotonic() - since > GRACE:
                sys.stderr.write(f"process {self.index} ends: {OtherFailed(note)}\n")
                sys.stderr.flush()
                os._exit(1)

    def agree(self, same: dict[str, Any], own: dict[str, Any]) -> list[dict[str, Any]]:
        """Make sure that all processes have prepared the same run.

        Args:
            same: what must be equal in all.
            own: what each tells of itself.

        Returns:
            What all told, by index; in other processes than the first only this one's own.

        Raises:
            RequestError: another process has other data, another recipe or other versions; the difference is named.
        """
        if self._processes and not self.leads:
            self._processes.put(f"ready/{self.index}", json.dumps({"same": same, "own": own}).encode())
        told = [own]
        for index in range(1, self.count if self.leads else 0):
            theirs = json.loads(self._wait(f"ready/{index}", PREPARING))
            for key in same:
                if theirs["same"][key] != same[key]:
                    raise RequestError(f"process {index} with {key}: {theirs['same'][key]}; process 0 has {same[key]}",
                                       "the same recipe, data and versions in all processes",
                                       "the same command on every machine, with the same files")
            told.append(theirs["own"])
        return told

    def lead(self, engine: Engine) -> Engine:
        """The engine as process 0 calls it; unchanged where it is alone."""
        if not self._processes:
            return engine
        self._leading = LeadingEngine(cast(DistributedEngine, engine), self._processes)
        return cast(Engine, self._leading)

    def follow(self, engine: Engine, weights: Path | None, stop_requested: Callable[[], bool]) -> dict[str, Any]:
        """Make the calls of process 0 until the end; what it says about the end.

        Args:
            engine: of this process.
            weights: where this process has the weights that the run starts from.
            stop_requested: whether this process was asked to stop, which is for process 0 to decide.

        Raises:
            WorkingsError: another process failed or is gone.
        """
        assert self._processes
        own, number = FollowingEngine(cast(DistributedEngine, engine), weights), 0
        while True:
            number += 1
            name, values, arrays = read_call(self._wait(f"call/{number}", 0.0, stop_requested))
            if name == END:
                return values
            self._following = True
            try:
                with explained(self._processes):
                    own.obey(name, values, arrays)
            finally:
                self._following = False
            self._pass_on(stop_requested)

    def stop_requested(self, here: bool) -> bool:
        """Whether this process or any other was asked to stop."""
        return here or (self._processes is not None and self._processes.peek(STOP) is not None)

    def _pass_on(self, stop_requested: Callable[[], bool]) -> None:
        """Tell process 0 once that this one was asked to stop."""
        if self._processes and not self._told and stop_requested():
            self._told = True
            self._processes.put(STOP, b"")

    def _wait(self, key: str, limit: float, stop_requested: Callable[[], bool] = lambda: False) -> bytes:
        """A note, waiting for as long as nobody fails; with a ``limit``, not longer than so many seconds."""
        assert self._processes
        began = time.monotonic()
        while True:
            try:
                if (note := self._processes.wait(key, LOOK)) is not None:
                    return note
                failed = self._processes.peek(FAILED)
                self._pass_on(stop_requested)
            except RuntimeError as error:
                raise WorkingsError("another process is gone, and with it the connection of all") from error
            if failed is not None:
                raise OtherFailed(failed)
            if limit and time.monotonic() - began > limit:
                raise WorkingsError(f"no {key} after {limit:.0f} seconds: another process is gone or still prepares")
