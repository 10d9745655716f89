"""What holds for every test: a clean environment, no network to the Hub, separate caches, and child processes.

Run from anywhere: nothing here depends on the working directory.
"""

import atexit
import gc
import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from tests import children, kept_folders
from workings.engines.hardware_probe import cpu_features

ROOT = Path(__file__).resolve().parent.parent

FOREIGN = ("WORKINGS_", "HF_", "HUGGING_FACE_", "HUGGINGFACE_", "TRANSFORMERS_", "KAGGLE_", "JAX_", "XLA_", "TPU_",
           "LIBTPU_", "TF_", "CUDA_", "NVIDIA_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "WANDB_", "MLFLOW_")
"""The user's own settings with these prefixes must not change what a test sees."""

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

PROGRAMS = ROOT / "build" / "compiled" / sha256(cpu_features().encode()).hexdigest()[:12]
"""JAX's own cache of compiled programs, for all workers of this session and for the next session."""
MAX_PROGRAM_BYTES = 1 << 30
OURS |= {"JAX_COMPILATION_CACHE_DIR": str(PROGRAMS), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
         "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0", "XLA_FLAGS": XLA_FLAGS}

RAM = Path("/dev/shm")
"""A run asks the disk three hundred times whether its files are safe, which takes no time here."""
RAM_BYTES = 4 << 30


def _make_caches() -> None:
    """Once for all workers of a session: the caches of tests, and the folder that holds what tests leave."""
    PROGRAMS.mkdir(parents=True, exist_ok=True)
    left = MAX_PROGRAM_BYTES
    for file in sorted(PROGRAMS.iterdir(), key=lambda file: file.stat().st_mtime, reverse=True):
        left -= file.stat().st_size
        if left < 0:
            file.unlink()
    # Plans, links and verdicts that a person keeps must neither help a test nor change by it.
    cache = tempfile.mkdtemp(prefix="workings-tests-cache-")
    atexit.register(shutil.rmtree, cache, ignore_errors=True)
    os.environ |= {"TESTS_CACHE": cache, "TESTS_KEPT": str(kept_folders.folder_of_now(XLA_FLAGS))}
    # Answers of compilers: tests that ask one have their own cache.
    (Path(os.environ["TESTS_KEPT"]) / "plans").mkdir(exist_ok=True)
    (Path(cache) / "plans").symlink_to(Path(os.environ["TESTS_KEPT"]) / "plans")
    if RAM.is_dir() and shutil.disk_usage(RAM).free > RAM_BYTES:
        os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", str(RAM))


if "TESTS_CACHE" not in os.environ:  # workers take it from the process that started them
    _make_caches()
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


class FailurePrinter:
    """Prints each failure when it happens, on one line: a suite that ends early prints no summary."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            crash = getattr(report.longrepr, "reprcrash", None)
            said = (crash.message if crash else str(report.longrepr)).strip().partition("\n")[0]
            terminal: Any = self.config.pluginmanager.get_plugin("terminalreporter")
            terminal.write_line(f"\nfailed in {report.when}: {report.nodeid}: {said[:300]}")


def pytest_configure(config: pytest.Config) -> None:
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(FailurePrinter(config))


if os.environ.get("TESTS_QUICK") == "1":
    collect_ignore_glob = ["*test_tunix_*", "*test_browser*"]  # every test of these is slow, and their imports are too
WHOLE_RUNS = ("workings.runs.train.prepare_to_train",)
"""Where a run begins to train."""
STARTS_CHILDREN = {"run_python", "start_forked"}
"""Fixtures that start processes; others that do are built on them."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test that uses a fixture that starts processes is marked so."""
    for item in items:
        if STARTS_CHILDREN & set(getattr(item, "fixturenames", ())):
            item.add_marker("children")
    # What is imported stays; looking through it for unreachable cycles takes a thirteenth of the tests' time.
    gc.freeze()


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """In `make quick`, a test that starts a process or trains a whole run is skipped where it begins to."""
    if os.environ.get("TESTS_QUICK") == "1":
        for name in ("subprocess.Popen", *WHOLE_RUNS):
            monkeypatch.setattr(name, lambda *what, name=name, **more: pytest.skip(f"not quick: calls {name}"))


@pytest.fixture(autouse=True)
def clean_environment() -> Iterator[None]:
    """What a test (or a library that it imports) sets in the environment is gone when the test ends."""
    clean = _clean(os.environ)  # JAX, for one, sets a variable when it is imported, which may be at any time
    _set(clean)
    yield
    _set(clean)


@pytest.fixture(autouse=True)
def one_thread() -> None:
    """PyTorch's products are small here, and on a busy machine threads only wait."""
    if "torch" in sys.modules:
        sys.modules["torch"].set_num_threads(1)


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
    """Folder of shared test data next to the repository; a test that needs it is skipped where it is absent."""
    folder = ROOT.parent / "shared"
    if not folder.is_dir():
        pytest.skip("no folder ../shared next to the repository")
    return folder


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="session")
def child_environment() -> Callable[..., dict[str, str]]:
    """Environment for a child process: the clean one, plus ``changes``, plus as many fake CPU devices as asked for."""
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
def start_forked(child_environment: Callable[..., dict[str, str]]) -> Callable[..., Any]:
    """Starts ``python ARGUMENTS`` as a forked child (`tests.children`), does not wait; keywords as of `run_python`."""
    def start(*arguments: str | Path, devices: int = 1, cwd: Path | None = None,
              environment: Mapping[str, str] | None = None, stdin: str = "") -> Any:
        variables = child_environment(devices=devices, **(environment or {}))
        return children.start(list(map(str, arguments)), cwd=cwd, environment=variables, stdin=stdin)
    return start


@pytest.fixture(scope="session")
def run_forked(start_forked: Callable[..., Any]) -> Run:
    """What `run_python` does, in a forked child: for everything that does not depend on imports."""
    def run(*arguments: str | Path, check: bool = True, **options: Any) -> subprocess.CompletedProcess[str]:
        child = start_forked(*arguments, **options)
        out, error = child.communicate()
        if check:
            assert child.returncode == 0, f"{' '.join(child.args)}\n{out}\n{error}"
        return subprocess.CompletedProcess(child.args, child.wait(), out, error)
    return run


@pytest.fixture(scope="session")
def run_ranks(start_forked: Callable[..., Any]) -> Callable[..., str]:
    """Runs ``python -m MODULE ARGUMENTS`` as torchrun starts processes of one host; what rank 0 printed."""
    def run(*arguments: str | Path, processes: int = 2) -> str:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = str(probe.getsockname()[1])
        common = {"WORLD_SIZE": str(processes), "LOCAL_WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1",
                  "MASTER_PORT": port, "OMP_NUM_THREADS": "1"}
        ranks = [start_forked("-m", *arguments, cwd=ROOT, environment={**common, "RANK": rank, "LOCAL_RANK": rank})
                 for rank in map(str, range(processes))]
        said = [child.communicate() for child in ranks]
        assert [child.returncode for child in ranks] == [0] * processes, said
        return said[0][0]
    return run


@pytest.fixture(scope="session")
def workings(run_forked: Run) -> Run:
    """Runs ``python -m workings ARGUMENTS`` in a forked child; keywords as of `run_python`."""
    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        return run_forked("-m", "workings", *arguments, **options)
    return run
