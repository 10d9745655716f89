"""One engine of several processes: process 0 calls it as if it were alone, the others do as they are told.

Process 0 decides everything: what the next batch is, when to stop, when to save. Each of its calls becomes a note that
all others read, and all processes then make the same call of their own engine. So nobody can disagree about the next
step, and the others need neither the run directory nor a clock.
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
from workings.engines.errors_text import first_line
from workings.engines.out_of_memory import is_out_of_memory
from workings.errors import RequestError, WorkingsError
from workings.hardware.device import DeviceFacts
from workings.models.batch import Batch

FAILED = "failed"
"""Key of the note of the process that failed."""
END = "end"
"""Name of the last call."""
GONE = ("Connection closed", "Connection reset", "Connection refused", "Broken pipe", "Socket closed", "remote process")
"""Words of the libraries about a process that was there and is not."""
PATIENCE = 5.0
"""Seconds in which the one that failed may say so, after others have noticed that it is gone."""


class Kept:
    """What process 0 holds for a state of which every process has its part."""

    def __init__(self, own: State, number: int) -> None:
        self.own = own
        self.number = number

    def take(self) -> State:
        """The own part, for a call that consumes it."""
        own, self.own = self.own, None
        return own


def write_call(name: str, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> bytes:
    """A call as bytes: a line of JSON, then the arrays one after the other, compressed."""
    parts = [zlib.compress(np.ascontiguousarray(x).tobytes(), 1) for x in arrays.values()]
    header = {"name": name, "values": dict(values), "arrays": [
        [key, str(x.dtype), list(x.shape), len(part)] for (key, x), part in zip(arrays.items(), parts, strict=True)]}
    return b"\n".join([json.dumps(header).encode(), b"".join(parts)])


def read_call(data: bytes) -> tuple[str, dict[str, Any], dict[str, np.ndarray]]:
    """The way back."""
    line, _, rest = data.partition(b"\n")
    header, start = json.loads(line), 0
    arrays = {}
    for key, dtype, size, length in header["arrays"]:
        arrays[key] = np.frombuffer(zlib.decompress(rest[start:start + length]), dtype).reshape(size)
        start += length
    return header["name"], header["values"], arrays


def failure_note(index: int, error: BaseException) -> bytes:
    """What the others are told about an error."""
    return json.dumps({"index": index, "text": first_line(error) if not isinstance(error, RequestError)
                       else error.given, "exit_code": getattr(error, "exit_code", 1),
                       "out_of_memory": is_out_of_memory(error)}).encode()


class OtherFailed(WorkingsError):
    """Another process failed; the exit code is the one it had."""

    def __init__(self, note: bytes) -> None:
        said = json.loads(note)
        self.out_of_memory = bool(said["out_of_memory"])
        self.exit_code = int(said["exit_code"])
        super().__init__(f"process {said['index']}: {said['text']}")


@contextmanager
def explained(processes: Processes) -> Iterator[None]:
    """A call that broke because another process failed raises what that process said, as `OtherFailed`."""
    try:
        yield
    except RuntimeError as error:
        if is_out_of_memory(error):
            raise
        if (note := processes.wait(FAILED, PATIENCE)) is not None:
            raise OtherFailed(note) from error
        if any(word in str(error) for word in GONE):
            raise WorkingsError(f"another process is gone ({first_line(error)}); go on with --resume") from error
        raise


class LeadingEngine:
    """`workings.engines.base.Engine` of process 0: what it is asked, all processes do."""

    def __init__(self, engine: DistributedEngine, processes: Processes) -> None:
        self.engine = engine
        self.processes = processes
        self.name = engine.name
        self.inside = False
        """Whether a call that needs the others is under way."""
        self.broken = False
        """Whether one went wrong: the others may be stuck in it."""
        self._calls = 0
        self._states = 0
        self._dropped: list[int] = []
        self._unread: list[int] = []

    def tell(self, name: str, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None) -> None:
        """Leave a call for the others."""
        self._calls += 1
        values = dict(values) | {"dropped": [self._dropped.pop() for _ in range(len(self._dropped))]}
        self.processes.put(f"call/{self._calls}", write_call(name, values, arrays or {}))
        self._unread.append(self._calls)

    @contextmanager
    def _together(self, name: str, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray] | None = None
                  ) -> Iterator[None]:
        self.tell(name, values, arrays)
        self.inside = True
        try:
            with explained(self.processes):
                yield
        except OtherFailed as other:
            self.broken = True
            if other.out_of_memory:  # of one is of all: the loop ends as if it had been its own
                raise MemoryError(str(other)) from other
            raise
        except BaseException:
            self.broken = True
            raise
        finally:
            self.inside = False

    def _keep(self, own: State, number: int) -> Kept:
        kept = Kept(own, number)
        weakref.finalize(kept, self._dropped.append, number)
        return kept

    def _next(self) -> int:
        self._states += 1
        return self._states

    def init(self, seed: int) -> State:
        """A fresh state with random weights."""
        number = self._next()
        with self._together("init", {"into": number, "seed": seed}):
            return self._keep(self.engine.init(seed), number)

    def load(self, weights: Path) -> State:
        """A fresh optimizer on weights; each process reads its own copy of them."""
        number = self._next()
        with self._together("load", {"into": number}):
            return self._keep(self.engine.load(weights), number)

    def restore(self, directory: Path) -> State:
        """The state that `save` wrote; every process reads the directory."""
        number = self._next()
        with self._together("restore", {"into": number, "directory": str(directory.absolute())}):
            return self._keep(self.engine.restore(directory), number)

    def step(self, state: State, batch: Batch, learning_rate: float) -> tuple[State, StepResult]:
        """One update on one batch."""
        number, old = self._next(), state.number
        with self._together("step", {"state": old, "into": number, "learning_rate": learning_rate}, batch.arrays):
            own, result = self.engine.step(state.take(), batch, learning_rate)
        # All have added their share to the loss, so all have read what was asked before.
        while self._unread:
            self.processes.drop(f"call/{self._unread.pop()}")
        return self._keep(own, number), result

    def evaluate(self, state: State, batch: Batch) -> LossSum:
        """Loss of a batch."""
        with self._together("evaluate", {"state": state.number}, batch.arrays):
            return self.engine.evaluate(state.own, batch)

    def generate(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int,
                 stop_ids: Sequence[int]) -> list[Completion]:
        """Greedy continuations."""
        asked: dict[str, Any] = {"prompts": [list(prompt) for prompt in prompts], "max_new_tokens": max_new_tokens,
                 "stop_ids": [*stop_ids]}
        with self._together("generate", {"state": state.number, "asked": asked}):
            return self.engine.generate(state.own, **asked)

    def sample(self, state: State, prompts: Sequence[Sequence[int]], *, max_new_tokens: int, stop_ids: Sequence[int],
               temperature: float, seeds: Sequence[int]) -> list[Completion]:
        """Drawn continuations."""
        asked: dict[str, Any] = {"prompts": [list(prompt) for prompt in prompts], "max_new_tokens": max_new_tokens,
                 "stop_ids": [*stop_ids], "temperature": temperature, "seeds": [int(seed) for seed in seeds]}
        with self._together("sample", {"state": state.number, "asked": asked}):
            return self.engine.sample(state.own, **asked)

    def save(self, state: State, directory: Path) -> None:
        """Gather what every process has; this one writes."""
        with self._together("save", {"state": state.number, "directory": str(directory.absolute())}):
            self.engine.save(state.own, directory)

    def export(self, state: State, directory: Path) -> None:
        """Gather what every process has; this one writes."""
        with self._together("export", {"state": state.number, "directory": str(directory.absolute())}):
            self.engine.export(state.own, directory)

    def describe(self) -> DeviceFacts:
        """What this process runs on."""
        return self.engine.describe()

    def dtypes(self) -> Mapping[str, str]:
        """Number formats."""
        return self.engine.dtypes()

    def memory(self) -> Memory:
        """Peak memory of this process's devices."""
        return self.engine.memory()

    def inspect(self, batch: Batch) -> Inspection:
        """What a step needs on a device."""
        return self.engine.inspect(batch)

    def check_device(self) -> Mapping[str, Any]:
        """Whether this process's devices compute."""
        return self.engine.check_device()

    def environment_files(self) -> Mapping[str, str]:
        """Texts about libraries and drivers of this process."""
        return self.engine.environment_files() if isinstance(self.engine, ReportingEngine) else {}


class FollowingEngine:
    """The engine of another process, and the states it has its part of."""

    def __init__(self, engine: DistributedEngine, weights: Path | None) -> None:
        """``weights``: where this process has the weights that the run starts from."""
        self.engine = engine
        self.weights = weights
        self._states: dict[int, State] = {}

    def obey(self, name: str, values: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        """Make one call of process 0."""
        for number in values["dropped"]:
            self._states.pop(number, None)
        if name in ("init", "load", "restore"):
            self._states[values["into"]] = self._begin(name, values)
        elif name == "step":
            own = self._states.pop(values["state"])
            self._states[values["into"]], _ = self.engine.step(own, Batch.of(arrays), values["learning_rate"])
        elif name == "evaluate":
            self.engine.evaluate(self._states[values["state"]], Batch.of(arrays))
        elif name in ("generate", "sample"):
            getattr(self.engine, name)(self._states[values["state"]], **values["asked"])
        elif name in ("save", "export"):
            getattr(self.engine, name)(self._states[values["state"]], Path(values["directory"]))
        else:
            raise ValueError(f"process 0 asks for {name}")

    def _begin(self, name: str, values: Mapping[str, Any]) -> State:
        if name == "init":
            return self.engine.init(values["seed"])
        if name == "load":
            assert self.weights is not None
            return self.engine.load(self.weights)
        directory = Path(values["directory"])
        if not directory.is_dir():
            raise RequestError(f"{directory}, which this process does not see",
                               "a run directory that all processes read: a checkpoint is restored by all of them",
                               "a --out on a file system that all machines share")
        return self.engine.restore(directory)


def facts_of(engine: Engine) -> dict[str, Any]:
    """What must be the same in every process beside the request and the data."""
    device = engine.describe()
    return {"platform": device.platform, "mesh": dict(device.mesh), "versions": dict(device.versions),
            "dtypes": dict(engine.dtypes())}
