"""One engine in several processes: process 0 broadcasts each of its calls, and all processes make the same one.

Process 0 decides everything, so no two processes can disagree about the next step. A call is a few bytes and its batch.
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
"""Names of a call that does nothing, and of the last one."""
NEW_STATE = ("init", "load", "restore", "without_adapters", "with_adapters")
"""Methods whose result is a state; `step` returns one as well."""
SAVE_SHARDS = "save_shards"
SEEN_SECONDS = 60.0
"""Time in which files that other processes have written must appear here: a network's file system remembers names."""
IDLE_SECONDS = 60.0
"""Longest pause between two calls: a collective operation ends with an error where another process is late."""
FAILED = "failed"
"""Key under which a process that failed stores why."""
POLL_SECONDS = 1.0
"""Seconds between two looks for a failure while something is waited for."""
REASON_TIMEOUT = 5.0
"""Seconds to wait for the reason of a failure, after a broken call has shown that there is one."""


class PeerFailed(WorkingsError):
    """Another process failed; the exit code is the one it had."""

    def __init__(self, failure: bytes) -> None:
        """``failure``: as `write_failure` made it."""
        facts = json.loads(failure)
        self.out_of_memory = bool(facts["out_of_memory"])
        self.exit_code = int(facts["exit_code"])
        super().__init__(f"process {facts['index']}: {facts['text']}")


def write_failure(index: int, error: BaseException) -> bytes:
    """Encode an error of process ``index`` for the other processes."""
    return json.dumps({"index": index, "text": first_line(error) if not isinstance(error, RequestError)
                       else error.given, "exit_code": getattr(error, "exit_code", 1),
                       "out_of_memory": is_out_of_memory(error)}).encode()


def wait_for(processes: Processes, key: str, limit: float) -> bytes:
    """A value of the store, waiting at most ``limit`` seconds and as long as no process fails.

    Raises `PeerFailed`, or `Interrupted` if the value did not come in time or the store is gone.
    """
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
    """Within this context a collective call that breaks raises why: `PeerFailed` if another process stored a reason.

    PyTorch and JAX report a lost process by many exceptions and texts, so several types count as one.
    """
    try:
        yield
    except (RuntimeError, ValueError, ConnectionError) as error:
        # Its own lack of memory comes first: others that failed because of it would hide the cause.
        if is_out_of_memory(error):
            raise
        try:
            # The connection may break a moment before the other process has stored its reason.
            failure = processes.wait(FAILED, REASON_TIMEOUT)
        except RuntimeError:  # not even the store can be reached
            failure = None
        if failure is not None:
            raise PeerFailed(failure) from error
        raise Interrupted(f"{PEER_GONE} ({first_line(error)})") from error


@dataclass(frozen=True)
class Call:
    """What is broadcast: a method of `DistributedEngine` with its arguments, in which a state is its number."""

    name: str
    arguments: Sequence[Any] = ()
    named: Mapping[str, Any] = field(default_factory=dict)
    into: int = 0
    """Number of the state that the call makes."""
    dropped: Sequence[int] = ()
    """Numbers of states that process 0 has dropped since the call before."""


@dataclass(frozen=True)
class StateNumber:
    """A state among the arguments of a call."""

    number: int


class OwnPart:
    """A state as process 0's loop holds it: the part of this process, and the number by which others find theirs."""

    def __init__(self, part: State, number: int) -> None:
        self.part, self.number = part, number


def _of_all(name: str) -> Callable[..., Any]:
    def call(self: "LeadingEngine", *arguments: Any, **named: Any) -> Any:
        return self._call(name, *arguments, **named)

    return call


def _of_this_process(name: str) -> Callable[..., Any]:
    def call(self: "LeadingEngine", *arguments: Any) -> Any:
        return getattr(self.engine, name)(*arguments)

    return call


class LeadingEngine:
    """The engine of process 0: each call that needs all processes is broadcast first."""

    def __init__(self, engine: DistributedEngine, processes: Processes) -> None:
        self.engine, self.processes, self.name = engine, processes, engine.name
        self.failed = False
        """Whether a call failed: the others may be stuck in it."""
        self._numbers, self._saves, self._dropped = 0, 0, list[int]()
        self._lock, self._last_call, self._over = threading.Lock(), time.monotonic(), threading.Event()
        self._idle = threading.Thread(target=self._keep_in_touch, name="idle calls", daemon=True)
        self._idle.start()

    def end(self, outcome: Mapping[str, Any] | None) -> None:
        """Make no more calls; the last one carries an outcome unless it is None, after a failure."""
        self._over.set()
        self._idle.join()
        if outcome is not None:
            self.processes.broadcast(Call(LAST, named=dict(outcome)))

    def _keep_in_touch(self) -> None:
        """While process 0 computes alone, for example scores answers, let the others know that it is there."""
        pause = min(IDLE_SECONDS, self.processes.timeout / 4)
        while not self._over.wait(pause / 4):
            # Never during a call: collective operations must have one order in all processes.
            if self._lock.acquire(blocking=False):
                try:
                    if time.monotonic() - self._last_call > pause:
                        self.processes.broadcast(Call(IDLE))
                        self._last_call = time.monotonic()
                except Exception:  # noqa: BLE001 - the next call of the main thread meets the same error and says it
                    return
                finally:
                    self._lock.release()

    def _call(self, name: str, *arguments: Any, **named: Any) -> Any:
        """Broadcast a call and make it. Raises `PeerFailed` or `WorkingsError` where another process failed."""
        makes_state = name in NEW_STATE or name == "step"
        self._numbers += makes_state
        # Popped one by one: a finalizer may append meanwhile, and what is left waits for the next call.
        dropped = [self._dropped.pop() for _ in range(len(self._dropped))]
        sent = tuple(StateNumber(x.number) if isinstance(x, OwnPart) else
                     # Absolute, because processes may have been started in different folders.
                     x.absolute() if isinstance(x, Path) else x for x in arguments)
        own = [x.part if isinstance(x, OwnPart) else x for x in arguments]
        if name == "step":
            # The engine consumes the state; a reference kept here would hold the memory of two of them.
            arguments[0].part = None
        with self._lock:
            try:
                with explaining_failures(self.processes):
                    self.processes.broadcast(Call(name, sent, named, self._numbers if makes_state else 0, dropped))
                    method = getattr(self.engine, name)
                    # Popped from the list, so that no reference to a consumed state is left here.
                    result = method(own.pop(0), *own, **named) if own else method(**named)
                    if name == SAVE_SHARDS:
                        self._wait_for_shards(arguments[-1])
            except PeerFailed as failure:
                self.failed = True
                if failure.out_of_memory:  # the loop ends as if this process had run out of memory itself
                    raise MemoryError(str(failure)) from failure
                raise
            except BaseException:
                self.failed = True
                raise
            finally:
                self._last_call = time.monotonic()
        if name == "step":
            return self._own_part(result[0]), result[1]
        return self._own_part(result) if makes_state else result

    def _wait_for_shards(self, directory: Path) -> None:
        """Return when all processes have said that their shards are on the disk, and this one sees them."""
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
        handle = OwnPart(part, self._numbers)
        # Its end makes the others drop their parts, too. The finalizer holds the list and not this engine.
        weakref.finalize(handle, self._dropped.append, self._numbers)
        return handle

    # Calls that all processes make, as `workings.engines.base` describes them.
    init, load, restore, without_adapters, with_adapters = map(_of_all, NEW_STATE)
    step, evaluate, log_probs, generate, sample, save, save_shards, export = map(
        _of_all, ("step", "evaluate", "log_probs", "generate", "sample", "save", SAVE_SHARDS, "export"))
    describe, dtypes, memory, inspect, check_device = map(
        _of_this_process, ("describe", "dtypes", "memory", "inspect", "check_device"))

    def environment_files(self) -> Mapping[str, str]:
        """Texts about libraries and drivers of this process."""
        return self.engine.environment_files() if isinstance(self.engine, ReportingEngine) else {}


def follow(engine: DistributedEngine, processes: Processes, weights: Path | None,
           between_calls: Callable[[], None]) -> dict[str, Any]:
    """Make the calls of process 0 with this process's engine until the last one; returns the outcome that it carries.

    Raises `WorkingsError` if another process failed or is gone.
    """
    states: dict[int, State] = {}
    saves = 0
    with explaining_failures(processes):
        while (call := processes.broadcast(None)).name != LAST:
            for number in call.dropped:
                # A step may have consumed the state of this number already.
                states.pop(number, None)
            if call.name != IDLE:
                _make(call, engine, states, weights)
            if call.name == SAVE_SHARDS:
                saves += 1
                processes.set(_saved_key(saves, processes.index), b"")
            between_calls()
    return dict(call.named)


def _saved_key(number: int, index: int) -> str:
    """Key that a process sets when it has written its shards for the ``number``-th time."""
    return f"saved/{number}/{index}"


def _make(call: Call, engine: DistributedEngine, states: dict[int, State], weights: Path | None) -> None:
    # A step consumes its state: taken out, so that this process holds one of them at a time.
    arguments = [(states.pop if call.name == "step" else states.__getitem__)(x.number)
                 if isinstance(x, StateNumber) else x for x in call.arguments]
    if call.name == "load":
        arguments[0] = weights  # each process has found them on its own machine
    if call.name in ("restore", SAVE_SHARDS) and not arguments[-1].is_dir():
        # Most likely the directory is on process 0's own disk, which no other error would say.
        raise RequestError(f"this process does not see {arguments[-1]}",
                           "a run directory that all processes read, and write to with checkpoint.sharded: true",
                           "a --out on a file system that all machines share")
    result = getattr(engine, call.name)(arguments.pop(0), *arguments, **call.named)
    if call.into:
        states[call.into] = result[0] if call.name == "step" else result
