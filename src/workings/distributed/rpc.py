"""Remote calls from the coordinator's engine to the engines of the workers.

Process 0, the coordinator, decides everything: what the next batch is, when to stop, when to save. It writes each of
its calls into the key-value store, every worker reads it there, and all processes then make the same call of their own
engine. So no two processes can disagree about the next step, and a worker needs neither the run directory nor a clock.
"""

import json
import weakref
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from workings.engines.base import (
    AdapterEngine,
    Completion,
    DistributedEngine,
    Engine,
    Inspection,
    LossSum,
    Memory,
    Processes,
    ReportingEngine,
    State,
    StepResult,
)
from workings.errors import RequestError, WorkingsError, first_line, is_out_of_memory
from workings.hardware.device import DeviceFacts
from workings.models.batch import Batch

FAILURE_KEY = "failed"
"""Key under which a process that failed stores why."""
LAST_CALL = "end"
"""Name of the last call."""
CONNECTION_LOST = ("Connection closed", "Connection reset", "Connection refused", "Broken pipe", "Socket closed",
                   "remote process")
"""Words in the libraries' errors about a process that has ended."""
FAILURE_TIMEOUT = 5.0
"""Seconds to wait for the reason of a failure, after a broken call has shown that there is one."""


class StateHandle:
    """The coordinator's handle of a distributed state: its own shard, and the number by which workers find theirs."""

    def __init__(self, shard: State, number: int) -> None:
        self.shard = shard
        self.number = number

    def take(self) -> State:
        """The own shard, for a call that consumes it."""
        # The engine consumes the shard; a reference kept here would hold the memory of two states during a step.
        shard, self.shard = self.shard, None
        return shard


def write_call(name: str, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """Encode a call: a line of JSON, then the arrays one after the other, compressed."""
    # Level 1, the fastest: padding and small integers shrink at any level, and the step waits for this.
    parts = [zlib.compress(np.ascontiguousarray(x).tobytes(), 1) for x in arrays.values()]
    header = {"name": name, "values": dict(values), "arrays": [
        [key, str(x.dtype), list(x.shape), len(part)] for (key, x), part in zip(arrays.items(), parts, strict=True)]}
    return b"\n".join([json.dumps(header).encode(), b"".join(parts)])


def read_call(data: bytes) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """Decode what `write_call` made: name, values and arrays of the call."""
    line, _, rest = data.partition(b"\n")
    header, start = json.loads(line), 0
    arrays = {}
    for key, dtype, size, length in header["arrays"]:
        # A view of the decompressed bytes, and so read-only.
        arrays[key] = np.frombuffer(zlib.decompress(rest[start:start + length]), dtype).reshape(size)
        start += length
    return header["name"], header["values"], arrays


def write_failure(index: int, error: BaseException) -> bytes:
    """Encode an error of process ``index`` for the other processes."""
    return json.dumps({"index": index, "text": first_line(error) if not isinstance(error, RequestError)
                       else error.given, "exit_code": getattr(error, "exit_code", 1),
                       "out_of_memory": is_out_of_memory(error)}).encode()


class PeerFailed(WorkingsError):
    """Another process failed; the exit code is the one it had."""

    def __init__(self, failure: bytes) -> None:
        """``failure``: as `write_failure` made it."""
        facts = json.loads(failure)
        self.out_of_memory = bool(facts["out_of_memory"])
        self.exit_code = int(facts["exit_code"])
        super().__init__(f"process {facts['index']}: {facts['text']}")


@contextmanager
def raising_peer_failures(processes: Processes) -> Iterator[None]:
    """Within this context a call that breaks because another process failed raises that failure, as `PeerFailed`."""
    try:
        yield
    except RuntimeError as error:
        # Its own lack of memory comes first: others that failed because of it would hide the cause.
        if is_out_of_memory(error):
            raise
        # The connection may break a moment before the other process has stored its reason.
        if (failure := processes.wait(FAILURE_KEY, FAILURE_TIMEOUT)) is not None:
            raise PeerFailed(failure) from error
        if any(word in str(error) for word in CONNECTION_LOST):
            raise WorkingsError(f"another process is gone ({first_line(error)}); go on with --resume") from error
        raise


class CoordinatorEngine:
    """`workings.engines.base.Engine` of the coordinator: each call is made by the engines of all processes."""

    def __init__(self, engine: DistributedEngine, processes: Processes) -> None:
        self.engine = engine
        self.processes = processes
        self.name = engine.name
        self.in_call = False
        """Whether a call that needs the workers is under way."""
        self.broken = False
        """Whether one failed: the workers may be stuck in it."""
        self._calls = 0
        self._states = 0
        self._dropped: list[int] = []
        """Numbers of states that have no handle any more; the next call tells the workers."""
        self._undeleted: list[int] = []
        """Numbers of calls that are still in the store."""

    def send(self, name: str, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> None:
        """Store a call for the workers."""
        self._calls += 1
        # Popped one by one: a finalizer may append while this line runs, and what is left waits for the next call.
        values = dict(values) | {"dropped": [self._dropped.pop() for _ in range(len(self._dropped))]}
        self.processes.set(f"call/{self._calls}", write_call(name, values, arrays or {}))
        # Kept until a step has shown that every worker has read it: deleting it earlier would leave one waiting.
        self._undeleted.append(self._calls)

    @contextmanager
    def _collective(self, name: str, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None
                    ) -> Iterator[None]:
        """Send a call to the workers; within this context the coordinator makes it too."""
        self.send(name, values, arrays)
        self.in_call = True
        try:
            with raising_peer_failures(self.processes):
                yield
        except PeerFailed as failure:
            self.broken = True
            if failure.out_of_memory:  # the loop ends as if this process had run out of memory itself
                raise MemoryError(str(failure)) from failure
            raise
        except BaseException:
            self.broken = True
            raise
        finally:
            self.in_call = False

    def _handle(self, shard: State, number: int) -> StateHandle:
        """A handle whose end makes the workers drop their shards of the state too."""
        handle = StateHandle(shard, number)
        # The finalizer holds the list and not this engine, which may therefore end before its states.
        weakref.finalize(handle, self._dropped.append, number)
        return handle

    def _next_number(self) -> int:
        self._states += 1
        return self._states

    def init(self, seed: int, *, trainable: bool = True) -> State:
        """A fresh state with random weights."""
        # The coordinator gives the numbers, so a state has the same one in every process and no answer is waited for.
        number = self._next_number()
        with self._collective("init", {"into": number, "seed": seed, "trainable": trainable}):
            return self._handle(self.engine.init(seed, trainable=trainable), number)

    def load(self, weights: Path, *, trainable: bool = True) -> State:
        """A fresh optimizer on weights; each process reads its own copy of them."""
        number = self._next_number()
        with self._collective("load", {"into": number, "trainable": trainable}):
            return self._handle(self.engine.load(weights, trainable=trainable), number)

    def restore(self, directory: Path) -> State:
        """The state that `save` wrote; every process reads the directory."""
        number = self._next_number()
        with self._collective("restore", {"into": number, "directory": str(directory.absolute())}):
            return self._handle(self.engine.restore(directory), number)

    def step(self, state: State, batch: Batch, learning_rate: float) -> tuple[State, StepResult]:
        """One update on one batch."""
        number, old = self._next_number(), state.number
        values = {"state": old, "into": number, "learning_rate": learning_rate, "divided_by": batch.divided_by}
        with self._collective("step", values, batch.arrays):
            shard, result = self.engine.step(state.take(), batch, learning_rate)
        # Every process has added its share to the loss, so every worker has read the calls up to this one.
        while self._undeleted:
            self.processes.delete(f"call/{self._undeleted.pop()}")
        return self._handle(shard, number), result

    def evaluate(self, state: State, batch: Batch) -> LossSum:
        """Loss of a batch."""
        with self._collective("evaluate", {"state": state.number}, batch.arrays):
            return self.engine.evaluate(state.shard, batch)

    def log_probs(self, state: State, batch: Batch) -> np.ndarray:
        """Log probabilities of a batch's targets."""
        with self._collective("log_probs", {"state": state.number}, batch.arrays):
            return self.engine.log_probs(state.shard, batch)

    def without_adapters(self, state: State) -> State:
        """The model below the adapters; every process shares its own part. Raises `RequestError` where none has one."""
        if not isinstance(self.engine, AdapterEngine):
            raise RequestError(f"the model below its adapters, of engine {self.name}", "an engine that tells it apart",
                               "load(weights, trainable=False): a copy of the first weights")
        number = self._next_number()
        with self._collective("without_adapters", {"state": state.number, "into": number}):
            return self._handle(self.engine.without_adapters(state.shard), number)

    def generate(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[Completion]:
        """Greedy continuations."""
        asked: dict[str, Any] = {"prompts": [list(prompt) for prompt in prompts], "max_new_tokens": max_new_tokens,
                 "stop_ids": [*stop_ids]}
        with self._collective("generate", {"state": state.number, "asked": asked}):
            return self.engine.generate(state.shard, **asked)

    def sample(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[Completion]:
        """Sampled continuations."""
        asked: dict[str, Any] = {"prompts": [list(prompt) for prompt in prompts], "max_new_tokens": max_new_tokens,
                 "stop_ids": [*stop_ids], "temperature": temperature, "seeds": [int(seed) for seed in seeds]}
        with self._collective("sample", {"state": state.number, "asked": asked}):
            return self.engine.sample(state.shard, **asked)

    def save(self, state: State, directory: Path) -> None:
        """Gather the shards of all processes; the coordinator writes."""
        # Absolute, because processes may have been started in different folders.
        with self._collective("save", {"state": state.number, "directory": str(directory.absolute())}):
            self.engine.save(state.shard, directory)

    def export(self, state: State, directory: Path) -> None:
        """Gather the shards of all processes; the coordinator writes."""
        with self._collective("export", {"state": state.number, "directory": str(directory.absolute())}):
            self.engine.export(state.shard, directory)

    def describe(self) -> DeviceFacts:
        """The device of this process."""
        return self.engine.describe()

    def dtypes(self) -> Mapping[str, str]:
        """Number formats."""
        return self.engine.dtypes()

    def memory(self) -> Memory:
        """Peak memory of this process's devices."""
        return self.engine.memory()

    def inspect(self, batch: Batch) -> Inspection:
        """Memory of a step on a device."""
        return self.engine.inspect(batch)

    def check_device(self) -> Mapping[str, Any]:
        """Whether this process's devices compute."""
        return self.engine.check_device()

    def environment_files(self) -> Mapping[str, str]:
        """Texts about libraries and drivers of this process."""
        return self.engine.environment_files() if isinstance(self.engine, ReportingEngine) else {}


class WorkerEngine:
    """The engine of a worker, and its shards of the coordinator's states by their numbers."""

    def __init__(self, engine: DistributedEngine, weights: Path | None) -> None:
        """``weights``: where this process has the weights that the run starts from."""
        self.engine = engine
        self.weights = weights
        self._states: dict[int, State] = {}

    def forget(self, numbers: Sequence[int]) -> None:
        """Drop the states of these numbers, which the coordinator has none of any more."""
        for number in numbers:
            # A step may have consumed the state of this number already.
            self._states.pop(number, None)

    def dispatch(self, name: str, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Make one call that the coordinator sent."""
        if name in ("init", "load", "restore"):
            self._states[values["into"]] = self._new_state(name, values)
        elif name == "step":
            # Taken out before the step, so that this process too holds one state at a time.
            shard = self._states.pop(values["state"])
            batch = Batch.of(arrays, values["divided_by"])
            # The result is dropped: the coordinator has its own.
            self._states[values["into"]], _ = self.engine.step(shard, batch, values["learning_rate"])
        elif name == "without_adapters":
            assert isinstance(self.engine, AdapterEngine)  # the coordinator's, of the same request, is one
            self._states[values["into"]] = self.engine.without_adapters(self._states[values["state"]])
        elif name in ("evaluate", "log_probs"):
            getattr(self.engine, name)(self._states[values["state"]], Batch.of(arrays))
        elif name in ("generate", "sample"):
            getattr(self.engine, name)(self._states[values["state"]], **values["asked"])
        elif name in ("save", "export"):
            getattr(self.engine, name)(self._states[values["state"]], Path(values["directory"]))
        else:
            raise ValueError(f"process 0 asks for {name}")

    def _new_state(self, name: str, values: Mapping[str, Any]) -> State:
        if name == "init":
            return self.engine.init(values["seed"], trainable=values["trainable"])
        if name == "load":
            # Each process has found the weights on its own machine, so no path is sent.
            assert self.weights is not None
            return self.engine.load(self.weights, trainable=values["trainable"])
        directory = Path(values["directory"])
        # Most likely the directory lies on the coordinator's own disk, which no other error would say.
        if not directory.is_dir():
            raise RequestError(f"{directory}, which this process does not see",
                               "a run directory that all processes read: a checkpoint is restored by all of them",
                               "a --out on a file system that all machines share")
        return self.engine.restore(directory)


def facts_of(engine: Engine) -> dict[str, Any]:
    """Facts that must be equal in every process, beside the request and the data."""
    device = engine.describe()
    return {"platform": device.platform, "mesh": dict(device.mesh), "versions": dict(device.versions),
            "dtypes": dict(engine.dtypes())}
