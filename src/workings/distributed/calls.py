"""One engine in several processes: process 0 broadcasts each call of its engine, and all processes make the same call.

`LeadingEngine` is the engine of process 0; `follow` runs in all others. States are not sent: each process has its own
part of every state, and calls refer to states by number.
"""

import json
import threading
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from workings.engines.base import DistributedEngine, Processes, ReportingEngine, State
from workings.errors import PEER_GONE, Interrupted, RequestError, WorkingsError, first_line, is_out_of_memory
from workings.models.shards import missing_shards

IDLE, LAST = "idle", "last"
"""Names of a call that does nothing, and of the last call."""
NEW_STATE = ("init", "load", "restore", "without_adapters", "with_adapters")
"""Methods whose result is a new state; the result of `step` is a state and a `StepResult`."""
SAVE_SHARDS = "save_shards"
SEEN_SECONDS = 60.0
"""Time limit for files of other processes to appear here: a network's file system may show them late."""
IDLE_SECONDS = 60.0
"""Longest pause between two calls: the other processes wait for the next call, and stop if it is late."""
FAILED = "failed"
"""Key under which a process that failed stores the reason."""
POLL_SECONDS = 1.0
"""Seconds between two looks for a failure while a process waits."""
REASON_TIMEOUT = 5.0
"""Seconds to wait for the reason of a failure after a call has failed."""


class PeerFailed(WorkingsError):
    """Another process failed; this error has the exit code of that process."""

    def __init__(self, failure: bytes) -> None:
        """``failure``: as `write_failure` made it."""
        facts = json.loads(failure)
        self.out_of_memory = bool(facts["out_of_memory"])
        self.exit_code = int(facts["exit_code"])
        super().__init__(f"process {facts['index']}: {facts['text']}")


def write_failure(index: int, error: BaseException) -> bytes:
    """Encode an error of process ``index`` for the other processes."""
    text = error.given if isinstance(error, RequestError) else first_line(error)
    return json.dumps({"index": index, "text": text, "exit_code": getattr(error, "exit_code", 1),
                       "out_of_memory": is_out_of_memory(error)}).encode()


def wait_for(processes: Processes, key: str, limit: float) -> bytes:
    """A value of the store. Raises `PeerFailed` if another process fails, `Interrupted` after ``limit`` seconds."""
    began = time.monotonic()
    while time.monotonic() - began < limit:
        try:
            if (value := processes.wait(key, POLL_SECONDS)) is not None:
                return value
            reason = processes.wait(FAILED, 0.0)
        except RuntimeError as error:
            raise Interrupted(PEER_GONE) from error
        if reason is not None:
            raise PeerFailed(reason)
    raise Interrupted(f"{PEER_GONE} (no {key} after {limit:.0f} seconds)")


@contextmanager
def explaining_failures(processes: Processes) -> Iterator[None]:
    """Replaces errors of calls that another process broke: by `PeerFailed` with its reason, else by `Interrupted`."""
    try:
        yield
    # PyTorch and JAX report a lost process by errors of these types.
    except (RuntimeError, ValueError, ConnectionError) as error:
        # If this process ran out of memory, the others failed because of it.
        if is_out_of_memory(error):
            raise
        try:
            failure = processes.wait(FAILED, REASON_TIMEOUT)
        except RuntimeError:  # the store cannot be reached either
            failure = None
        if failure is not None:
            raise PeerFailed(failure) from error
        raise Interrupted(f"{PEER_GONE} ({first_line(error)})") from error


@dataclass(frozen=True)
class Call:
    """A broadcast call of a method of `DistributedEngine`. A state among its arguments is a `StateNumber`."""

    name: str
    arguments: Sequence[Any] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    new_state: int | None = None
    """Number of the state that the call makes; None if it makes no state."""
    dropped: Sequence[int] = ()
    """Numbers of states that process 0 has dropped since the previous call."""


@dataclass(frozen=True)
class StateNumber:
    """A state among the arguments of a call."""

    number: int


class OwnPart:
    """A state in process 0: its own part of the state, and the number by which other processes find theirs."""

    def __init__(self, part: State, number: int) -> None:
        self.part, self.number = part, number


def _in_all_processes(name: str) -> Callable[..., Any]:
    def call(self: "LeadingEngine", *arguments: Any, **named: Any) -> Any:
        return self._call(name, *arguments, **named)

    return call


def _in_this_process(name: str) -> Callable[..., Any]:
    def call(self: "LeadingEngine", *arguments: Any) -> Any:
        return getattr(self.engine, name)(*arguments)

    return call


class LeadingEngine:
    """The engine of process 0: each call that needs all processes is broadcast first."""

    def __init__(self, engine: DistributedEngine, processes: Processes) -> None:
        self.engine, self.processes, self.name = engine, processes, engine.name
        self.failed = False
        """Whether a call failed; the other processes may be stuck in it."""
        self._newest, self._saves, self._dropped = 0, 0, list[int]()
        self._lock, self._last_call, self._over = threading.Lock(), time.monotonic(), threading.Event()
        self._idle = threading.Thread(target=self._keep_in_touch, name="idle calls", daemon=True)
        self._idle.start()

    def end(self, outcome: Mapping[str, Any] | None) -> None:
        """Make the last call, which has the ``outcome``; after a failure the outcome is None, and no call is made."""
        self._over.set()
        self._idle.join()
        if outcome is not None:
            self.processes.broadcast(Call(LAST, named=dict(outcome)))

    def _keep_in_touch(self) -> None:
        """Make idle calls while process 0 computes alone, for example while it scores answers."""
        pause = min(IDLE_SECONDS, self.processes.timeout / 4)
        while not self._over.wait(pause / 4):
            # Not during another call: collective operations must have one order in all processes.
            if self._lock.acquire(blocking=False):
                try:
                    if time.monotonic() - self._last_call > pause:
                        self.processes.broadcast(Call(IDLE))
                        self._last_call = time.monotonic()
                except Exception:  # noqa: BLE001 - the next call of the main thread raises the same error
                    return
                finally:
                    self._lock.release()

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Broadcast a call and make it. Raises `PeerFailed` or `WorkingsError` if another process failed."""
        call = self._next_call(name, arguments, named)
        own = [x.part if isinstance(x, OwnPart) else x for x in arguments]
        if name == "step":
            # The engine consumes the state. A reference to it would keep its memory, next to that of the new state.
            arguments[0].part = None
        with self._lock:
            try:
                with explaining_failures(self.processes):
                    self.processes.broadcast(call)
                    result = _make(call, self.engine, own)
                    if name == SAVE_SHARDS:
                        self._wait_for_shards(arguments[-1])
            except BaseException as error:
                self.failed = True
                # The loop ends as if this process had run out of memory itself.
                if isinstance(error, PeerFailed) and error.out_of_memory:
                    raise MemoryError(str(error)) from error
                raise
            finally:
                self._last_call = time.monotonic()
        if name == "step":
            state, step_result = result
            return self._own_part(state), step_result
        return self._own_part(result) if name in NEW_STATE else result

    def _next_call(self, name: str, arguments: Sequence[Any], named: Mapping[str, Any]) -> Call:
        new_state = None
        if name in NEW_STATE or name == "step":
            self._newest += 1
            new_state = self._newest
        # Popped one by one, because a finalizer may append at any time.
        dropped = [self._dropped.pop() for _ in range(len(self._dropped))]
        return Call(name, [_portable(x) for x in arguments], named, new_state, dropped)

    def _wait_for_shards(self, directory: Path) -> None:
        """Return when all processes have written their shards, and this process sees the files."""
        self._saves += 1
        for index in range(1, self.processes.count):
            wait_for(self.processes, _saved_key(self._saves, index), self.processes.timeout)
        limit = time.monotonic() + SEEN_SECONDS
        while missing := missing_shards(file.name for file in directory.iterdir()):
            if time.monotonic() > limit:
                raise RequestError(f"process 0 does not see {directory / missing[0]}, which another process wrote",
                                   "a run directory that all processes write to",
                                   "a --out on a file system that all machines share, or checkpoint.sharded=false")
            time.sleep(0.1)

    def _own_part(self, part: State) -> OwnPart:
        handle = OwnPart(part, self._newest)
        # When it is freed, the next call makes the other processes drop their parts.
        weakref.finalize(handle, self._dropped.append, self._newest)
        return handle

    # The methods of `DistributedEngine`.
    init, load, restore, without_adapters, with_adapters = map(
        _in_all_processes, ("init", "load", "restore", "without_adapters", "with_adapters"))
    step, evaluate, log_probs, generate, sample, save, save_shards, export = map(
        _in_all_processes, ("step", "evaluate", "log_probs", "generate", "sample", "save", SAVE_SHARDS, "export"))
    describe, dtypes, memory, inspect, check_device = map(
        _in_this_process, ("describe", "dtypes", "memory", "inspect", "check_device"))

    def environment_files(self) -> Mapping[str, str]:
        """Texts about libraries and drivers of this process."""
        return self.engine.environment_files() if isinstance(self.engine, ReportingEngine) else {}


def _portable(argument: Any) -> Any:
    """An argument as other processes get it. Paths are absolute: processes may have started in different folders."""
    if isinstance(argument, OwnPart):
        return StateNumber(argument.number)
    return argument.absolute() if isinstance(argument, Path) else argument


def follow(engine: DistributedEngine, processes: Processes, weights: Path | None,
           between_calls: Callable[[], None]) -> dict[str, Any]:
    """Make process 0's calls with this engine; ``weights`` are on this machine. Returns the last call's outcome."""
    states: dict[int, State] = {}
    saves = 0
    with explaining_failures(processes):
        while (call := processes.broadcast(None)).name != LAST:
            for number in call.dropped:
                # A step may have consumed the state already.
                states.pop(number, None)
            if call.name != IDLE:
                _follow_call(call, engine, states, weights)
            if call.name == SAVE_SHARDS:
                saves += 1
                processes.set(_saved_key(saves, processes.index), b"")
            between_calls()
    return dict(call.named)


def _saved_key(number: int, index: int) -> str:
    """Key that process ``index`` sets when it has written its shards for the ``number``-th time."""
    return f"saved/{number}/{index}"


def _follow_call(call: Call, engine: DistributedEngine, states: dict[int, State], weights: Path | None) -> None:
    """Make a call of process 0 with this process's parts of its states, and store a new state."""
    arguments = [states[x.number] if isinstance(x, StateNumber) else x for x in call.arguments]
    if call.name == "step":  # it consumes its state, so that this process has one state at a time
        del states[call.arguments[0].number]
    if call.name == "load":
        arguments[0] = weights
    if call.name in ("restore", SAVE_SHARDS) and not arguments[-1].is_dir():
        # Most likely the directory is on the disk of process 0's machine.
        raise RequestError(f"this process does not see {arguments[-1]}",
                           "a run directory that all processes read, and write to with checkpoint.sharded: true",
                           "a --out on a file system that all machines share")
    result = _make(call, engine, arguments)
    if call.new_state is not None:
        states[call.new_state] = result[0] if call.name == "step" else result


def _make(call: Call, engine: DistributedEngine, arguments: list[Any]) -> Any:
    """Call the engine. A state is popped, because the list would keep its memory while a step consumes it."""
    method = getattr(engine, call.name)
    return method(arguments.pop(0), *arguments, **call.named) if arguments else method(**call.named)
