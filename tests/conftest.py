"""What holds for every test: a clean environment, no network to the Hub, programs kept, and ways to start children.

Run from anywhere: nothing here depends on the working directory.
"""

import atexit
import importlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import wraps
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from coverage import Coverage

from tests import kept_executables, kept_folders, kept_traces
from tests.fork_server import (
    FORKED_AGAIN,
    FORKS,
    ForkedChild,
    Server,
    collect_nothing,
    collect_seldom,
    do_not_wait_for_the_disk,
    fork_scoring,
    import_less,
    interpreter,
    remember_packages,
    remember_recipes,
)
from tests.kept_programs import KeptPrograms

ROOT = Path(__file__).resolve().parent.parent

FOREIGN = ("WORKINGS_", "HF_", "HUGGING_FACE_", "HUGGINGFACE_", "TRANSFORMERS_", "KAGGLE_", "JAX_", "XLA_", "TPU_",
           "LIBTPU_", "TF_", "CUDA_", "NVIDIA_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "WANDB_", "MLFLOW_")
"""A person's own settings with these prefixes must not change what a test sees."""

OURS = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120",
        # Threads of OpenMP that wait for work would hold a core that another worker could use.
        "OMP_WAIT_POLICY": "passive"}
"""Set for every test and child: nothing is fetched, and texts look the same on every terminal."""

CORRECTNESS_FLAGS = " ".join((
    "--xla_backend_optimization_level=0", "--xla_llvm_disable_expensive_passes=true",
    "--xla_cpu_use_fusion_emitters=false", "--xla_cpu_parallel_codegen_split_count=1",
    "--xla_cpu_enable_concurrency_optimized_scheduler=false"))
"""XLA's options for nearly all tests: the same operations, compiled in a third of the time. With ``RUN_FLAGS=1`` in the
environment XLA compiles as it does in a run; the quickstart's test and `test_run_flags.py` do so."""
XLA_FLAGS = "" if os.environ.get("RUN_FLAGS") == "1" else CORRECTNESS_FLAGS

PROGRAMS = KeptPrograms(ROOT / "build" / "compiled")
"""Programs that XLA compiled, for all workers of this session and for the next session."""
OURS |= {"JAX_COMPILATION_CACHE_DIR": str(PROGRAMS.folder), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
         "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0", "XLA_FLAGS": XLA_FLAGS,
         # XLA's own caches would put the folder's name into every key, and nothing would be found again.
         "JAX_PERSISTENT_CACHE_ENABLE_XLA_CACHES": "none"}


if "TESTS_CACHE" not in os.environ:  # workers take it from the process that started them
    os.environ["TESTS_CACHE"] = tempfile.mkdtemp(prefix="workings-tests-cache-")
    atexit.register(shutil.rmtree, os.environ["TESTS_CACHE"], ignore_errors=True)
    os.environ["TESTS_KEPT"] = str(kept_folders.folder_of_now(XLA_FLAGS))
    # Answers of compilers: tests that ask one have a cache of their own.
    (Path(os.environ["TESTS_KEPT"]) / "plans").mkdir(exist_ok=True)
    (Path(os.environ["TESTS_CACHE"]) / "plans").symlink_to(Path(os.environ["TESTS_KEPT"]) / "plans")
# Plans, links and verdicts that a person keeps must neither help a test nor change by it.
OURS |= {"WORKINGS_CACHE": os.environ["TESTS_CACHE"]}


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environment.items()
            if not name.startswith(FOREIGN) and name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    return kept | OURS


def _set(environment: Mapping[str, str]) -> None:
    """Change what differs: before and after each of thousands of tests that is nearly always nothing."""
    for name in os.environ.keys() - environment.keys():
        del os.environ[name]
    for name, value in environment.items():
        if os.environ.get(name) != value:
            os.environ[name] = value


# Before any test module is imported: JAX and the Hub read the environment when they are imported.
_set(_clean(os.environ))
do_not_wait_for_the_disk()
collect_nothing()
import_less()
remember_packages()
remember_recipes()


class SaidAtOnce:
    """Says what failed when it fails, on one line: a suite that ends early prints no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = (crash.message if crash else str(report.longrepr)).strip().partition("\n")[0]
            terminal: Any = self.config.pluginmanager.get_plugin("terminalreporter")
            terminal.write_line(f"\nfailed in {report.when}: {report.nodeid}: {said[:300]}")


def pytest_configure(config: pytest.Config) -> None:
    """One folder for the server that forks children; workers get it from the process that started them."""
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(SaidAtOnce(config))
        folder = Path(tempfile.mkdtemp(prefix="workings-tests-fork-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        os.environ |= {"TESTS_FORK_FOLDER": str(folder), "TESTS_FORK_OWNER": str(os.getpid())}
        interpreter(folder)  # before workers use it


if os.environ.get("TESTS_QUICK") == "1":
    collect_ignore_glob = ["*test_tunix_*", "*test_browser*"]  # every test of these is slow, and their imports are too
WHOLE_RUNS = ("workings.runs.train.train_in", "workings.runs.train_and_evaluate.train_in")
"""Where a run begins to train."""
STARTS_CHILDREN = {"fork_server", "run_python", "start_forked"}
"""Fixtures that start processes; others that do are built on them."""
MANY_CHILDREN = 50
"""So many tests of a session start children that some of them will ask for the server."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Whoever uses a fixture that starts processes is marked so; where lines are counted, some tests are not."""
    functions = set[str]()
    for item in items:
        if STARTS_CHILDREN & set(getattr(item, "fixturenames", ())):
            item.add_marker("children")
        # Counting lines takes a third of the tests' time again, and the first case of each quick test reaches more of
        # them than are asked for.
        function, marks = item.nodeid.partition("[")[0], {mark.name for mark in item.iter_markers()}
        if {"slow", "children"} & marks or function in functions:
            item.add_marker("no_cover")
        if "full" not in marks:  # which is left out after this
            functions.add(function)
    collect_seldom()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Where many tests start children the server imports while the first tests run, and every child is forked."""
    children = sum(item.get_closest_marker("children") is not None for item in session.items)
    if FORKS and children >= MANY_CHILDREN and not session.config.option.collectonly:
        Server(Path(os.environ["TESTS_FORK_FOLDER"]), int(os.environ["TESTS_FORK_OWNER"])).begin(_clean(os.environ))


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In `make quick`, a test that starts a process or trains a whole run is skipped where it begins to."""
    if os.environ.get("TESTS_QUICK") == "1":
        for name in ("subprocess.Popen", *WHOLE_RUNS):
            monkeypatch.setattr(name, lambda *what, name=name, **more: pytest.skip(f"not quick: calls {name}"))


@pytest.hookimpl(wrapper=True)
def pytest_report_to_serializable() -> Generator[None, Any, Any]:
    """Half a surrogate pair in what a failed test says would end the process that runs tests, and with it the suite."""
    return _encodable((yield))


def _encodable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="backslashreplace").decode()
    if isinstance(value, dict):
        return {_encodable(key): _encodable(each) for key, each in value.items()}
    return type(value)(map(_encodable, value)) if isinstance(value, list | tuple) else value


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown() -> None:
    """Share what was compiled in this test, and take what other workers have compiled."""
    PROGRAMS.exchange()


@pytest.fixture(autouse=True)
def clean_environment() -> Iterator[None]:
    """What a test (or a library that it imports) sets in the environment is gone when the test ends."""
    clean = _clean(os.environ)  # JAX, for one, sets a variable when it is imported, which may be at any time
    _set(clean)
    yield
    _set(clean)


@pytest.fixture(scope="session", autouse=True)
def forked_again() -> Iterator[None]:
    """What a test or a fixture asks for is a forked child, where it would be a new process: a trace, a compilation or a
    kernel of the doctor, which imports PyTorch or JAX, and scoring, which imports the rules."""
    with pytest.MonkeyPatch.context() as patch:
        folder, owner = Path(os.environ["TESTS_FORK_FOLDER"]), int(os.environ["TESTS_FORK_OWNER"])
        for name in FORKED_AGAIN.values() if FORKS else ():
            python = interpreter(folder)
            patch.setattr(importlib.import_module(name), "sys", SimpleNamespace(executable=str(python)))
        if FORKS and os.environ.get("TESTS_QUICK") != "1":  # there whatever starts a process is skipped
            patch.setattr("workings.scoring.worker_pool.subprocess", fork_scoring(folder, owner))
        yield


@pytest.fixture(scope="session", autouse=True)
def trainings_are_not_counted() -> Iterator[None]:
    """Where lines are counted, those of whole trainings are not: a step's Python would take half as long again."""
    counting = Coverage.current()
    with pytest.MonkeyPatch.context() as patch:
        for name in WHOLE_RUNS if counting is not None else ():
            module, _, function = name.rpartition(".")
            patch.setattr(name, _not_counted(getattr(importlib.import_module(module), function), counting))
        yield


def _not_counted(function: Callable[..., Any], counting: Coverage) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **keywords: Any) -> Any:
        if threading.current_thread() is not threading.main_thread():  # counted there by a tracer of its own
            return function(*args, **keywords)
        counting.stop()
        try:
            return function(*args, **keywords)
        finally:
            counting.start()
    return call


@pytest.fixture
def new_scoring_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scoring processes of this test are new ones, as a person's are."""
    monkeypatch.setattr("workings.scoring.worker_pool.subprocess", subprocess)


@pytest.fixture(autouse=True)
def torch_in_tests() -> None:
    """One thread, because products are small and on a busy machine threads only wait; traces of runs are kept."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)
    kept_traces.keep()
    kept_executables.keep()


@pytest.fixture
def run_flags(monkeypatch: pytest.MonkeyPatch) -> None:
    """Children of this test compile with the options that a run has; what it compiles itself is not changed."""
    monkeypatch.setenv("XLA_FLAGS", "")


@pytest.fixture(scope="session")
def repository() -> Path:
    """Root of this repository."""
    return ROOT


@pytest.fixture(scope="session")
def shared() -> Path:
    """Folder of shared test data beside the repository; a test that needs it is skipped where it is absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder ../shared beside the repository")
    return folder


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def child_environment() -> Callable[..., dict[str, str]]:
    """Environment for a child process: the clean one, plus ``changes``, plus as many fake CPU devices as asked for.

    Coverage's own variables stay in it, so that children are counted.
    """
    def make(*, devices: int = 1, **changes: str) -> dict[str, str]:
        environment = _clean(os.environ)
        if devices > 1:
            environment["XLA_FLAGS"] = f"{XLA_FLAGS} --xla_force_host_platform_device_count={devices}".strip()
            environment["JAX_PLATFORMS"] = "cpu"
        return environment | changes
    return make


@pytest.fixture(scope="session")
def run_python(child_environment: Callable[..., dict[str, str]]) -> Run:
    """Runs ``python ARGUMENTS`` in a clean child; ``devices`` fake CPU devices; output captured as text.

    ``run_python("-c", code, devices=2)`` is how a test gets two JAX devices: the number is fixed when JAX starts,
    so it cannot be changed in the test's own process.
    """
    def run(*arguments: str | Path, devices: int = 1, cwd: Path | None = None, check: bool = True,
            environment: Mapping[str, str] | None = None, stdin: str = "") -> subprocess.CompletedProcess[str]:
        command: Sequence[str] = [sys.executable, *map(str, arguments)]
        done = subprocess.run(command, cwd=cwd, env=child_environment(devices=devices, **(environment or {})),
                              input=stdin, capture_output=True, text=True, check=False)
        if check:
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}\n{done.stderr}"
        return done
    return run


@pytest.fixture(scope="session")
def fork_server() -> Server:
    """Starts children that are copies of a process which has imported everything; see `tests.fork_server`."""
    return Server(Path(os.environ["TESTS_FORK_FOLDER"]), int(os.environ["TESTS_FORK_OWNER"]))


@pytest.fixture(scope="session")
def start_forked(fork_server: Server, child_environment: Callable[..., dict[str, str]]) -> Callable[..., ForkedChild]:
    """Starts ``python ARGUMENTS`` as a forked child and does not wait for it; keywords as of `run_python`."""
    def start(*arguments: str | Path, devices: int = 1, cwd: Path | None = None,
              environment: Mapping[str, str] | None = None, stdin: str = "") -> ForkedChild:
        variables = child_environment(devices=devices, **(environment or {}))
        return fork_server.start(list(map(str, arguments)), cwd=cwd, environment=variables, stdin=stdin)
    return start


@pytest.fixture(scope="session")
def run_forked(start_forked: Callable[..., ForkedChild]) -> Run:
    """What `run_python` does, in a forked child: for everything that does not depend on imports."""
    def run(*arguments: str | Path, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        child = start_forked(*arguments, **options)
        out, error = child.communicate()
        if check:
            assert child.returncode == 0, f"{' '.join(child.args)}\n{out}\n{error}"
        return subprocess.CompletedProcess(child.args, child.wait(), out, error)
    return run


@pytest.fixture(scope="session")
def run_ranks(start_forked: Callable[..., ForkedChild]) -> Callable[..., str]:
    """Runs ``python -m MODULE ARGUMENTS`` twice, as torchrun starts two processes of one host; what rank 0 printed."""
    def run(*arguments: str | Path) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        common = {"WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port,
                  "OMP_NUM_THREADS": "1"}
        ranks = [start_forked("-m", *arguments, cwd=ROOT, environment={**common, "RANK": rank, "LOCAL_RANK": rank})
                 for rank in "01"]
        said = [child.communicate() for child in ranks]
        assert [child.returncode for child in ranks] == [0, 0], said
        return said[0][0]
    return run


@pytest.fixture(scope="session")
def workings(run_forked: Run) -> Run:
    """Runs ``python -m workings ARGUMENTS`` in a forked child; keywords as of `run_python`."""
    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        return run_forked("-m", "workings", *arguments, **options)
    return run
