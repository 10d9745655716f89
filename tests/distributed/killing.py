"""Killing processes of a run at chosen moments and judging what is left. Used by the tests and by `proof/kills.py`."""

import os
import random
import signal
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from workings.errors import PEER_GONE, Interrupted
from workings.evidence.verify import verify
from workings.record import jsonl
from workings.record.layout import METRICS, RECIPE_EVALUATION, SEAL, partial_path

Start = Callable[..., Any]
"""``start(*ARGUMENTS, cwd=, environment=)`` starts ``python ARGUMENTS``, as the fixture `start_forked` does."""
UNEQUAL = ("tokens_per_second", "seconds", "time", "peak", "memory")
"""Beginnings of keys, or parts of them, in the log of metrics that are measured and differ from run to run."""

IMPATIENT = """
from workings.distributed import calls, process_group
calls.REASON_TIMEOUT = process_group.SHUTDOWN_TIMEOUT = 1.0
from workings.__main__ import run
run()
"""
"""The command line, which waits a second instead of five for what a lost process says."""


def words(run: str, *overrides: str) -> list[str]:
    """What every process is started with."""
    return ["-m", "workings", "train", "recipe.yaml", *overrides, "--out", run, "--auto-resume"]


def free_port() -> int:
    """A port of this machine that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def launched(engine: str, index: int, port: int, timeout: float = 60.0) -> dict[str, str]:
    """What a launcher sets for one of two processes."""
    own = ({"JAX_COORDINATOR_ADDRESS": f"127.0.0.1:{port}", "JAX_NUM_PROCESSES": "2", "JAX_PROCESS_ID": str(index)}
           if engine == "jax" else
           {"RANK": str(index), "LOCAL_RANK": str(index), "WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"})
    return own | {"WORKINGS_PEER_TIMEOUT": f"{timeout:.0f}"}


def jax_pair(start: Start, folder: Path, run: str, *overrides: str) -> list[Any]:
    """Two processes of JAX that meet on a free port."""
    port = free_port()
    return [start(*words(run, "engine=jax", *overrides), cwd=folder, environment=launched("jax", index, port))
            for index in range(2)]


def torchrun(start: Start, folder: Path, run: str, restarts: int, *overrides: str) -> Any:
    """A launcher of two processes that starts them again where one fails."""
    return start("-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "--max-restarts",
                 str(restarts), *words(run, "engine=torch", *overrides), cwd=folder,
                 environment={"OMP_NUM_THREADS": "1"})


@contextmanager
def listening() -> Iterator[int]:
    """A port of this machine that another program uses."""
    with socket.create_server(("", 0)) as server:
        yield server.getsockname()[1]


def send(pid: int, number: int) -> None:
    """A signal to a process that may have ended."""
    with suppress(ProcessLookupError):
        os.kill(pid, number)


def children(pid: int) -> list[int]:
    """Process ids of a process's children."""
    return [int(number) for task in Path(f"/proc/{pid}/task").iterdir()
            for number in (task / "children").read_text().split()]


def steps(run: Path) -> int:
    """Steps in the log of metrics so far."""
    metrics = (partial if (partial := partial_path(run)).is_dir() else run) / METRICS
    return metrics.read_bytes().count(b"\n") if metrics.exists() else 0


def wait_for_steps(run: Path, count: int, alive: Callable[[], bool]) -> None:
    """Wait until the log has this many steps, or the processes have ended."""
    while alive() and steps(run) < count and not (run / SEAL).exists():
        time.sleep(0.01)


def kill_one(pair: list[Any], index: int) -> list[str]:
    """SIGKILL to one of two processes; what is wrong with the end of the other one."""
    if pair[index].poll() is not None:
        return []
    pair[index].send_signal(signal.SIGKILL)
    other = pair[1 - index]
    said = other.communicate()[1]
    pair[index].wait()  # not `communicate`: it may have been killed before it had streams
    # It may have finished before; and whom it never met it cannot miss.
    if other.returncode == 0 or (other.returncode == 2 and "did not meet" in said):
        return []
    sentences = said.count(PEER_GONE)
    problems = [] if other.returncode == Interrupted.exit_code else [f"exit code {other.returncode}: {said[-1500:]}"]
    return problems + ([] if sentences == 1 else [f"{sentences} sentences: {said[-1500:]}"])


def contents(run: Path) -> dict[str, Any]:
    """Everything in a run that does not depend on the clock: metrics, weights, answers."""
    lines = [{key: value for key, value in line.items() if not any(part in key for part in UNEQUAL)}
             for line in jsonl.read(run / METRICS)[0]]
    last = max(run.glob("checkpoints/step_*"))
    return {"metrics": lines, "answers": (run / RECIPE_EVALUATION / "predictions.jsonl").read_bytes(),
            "weights": {path.name: path.read_bytes() for path in last.glob("*.safetensors")}}


def problems_at_end(run: Path, whole: Mapping[str, Any]) -> list[str]:
    """What distinguishes a finished run from one that was never killed."""
    found = contents(run)
    problems = [f"{key} differ" for key in whole if found[key] != whole[key]]
    return problems + [f"verify: {check.id}" for check in verify(run).checks if check.verdict == "failed"]


def kill_and_go_on(start: Start, folder: Path, run: str, points: Iterable[tuple[int, int, float]],
                   *overrides: str) -> tuple[int, list[str]]:
    """A run of two processes of JAX that is killed at points, started again each time, and then left to its end.

    ``points``: index of the process to kill, further steps before that, and further seconds. Returns the number of
    kills, and what was wrong with the ends of the others.
    """
    kills, problems = 0, list[str]()
    for index, more, seconds in points:
        pair = jax_pair(start, folder, run, *overrides)
        wait_for_steps(folder / run, steps(folder / run) + more,
                       lambda pair=pair: all(child.poll() is None for child in pair))
        time.sleep(seconds)
        kills += pair[index].poll() is None
        problems += [f"{run}, process {index} after {steps(folder / run)} steps: {problem}"
                     for problem in kill_one(pair, index)]
    ends = [(child, child.communicate()[1]) for child in jax_pair(start, folder, run, *overrides)]
    return kills, problems + [f"{run}: exit code {child.returncode}: {said[-1500:]}"
                              for child, said in ends if child.returncode]


def random_points(seed: int, count: int) -> list[tuple[int, int, float]]:
    """Points for `kill_and_go_on`: from the start of the processes to the evaluation."""
    numbers = random.Random(seed)
    return [(numbers.randrange(2), numbers.randrange(6), numbers.random()) for _ in range(count)]
