"""What holds for every test: a clean environment, no network to the Hub, and a way to start children.

Run from anywhere: nothing here depends on the working directory.
"""

import atexit
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

FOREIGN = ("WORKINGS_", "HF_", "HUGGING_FACE_", "HUGGINGFACE_", "TRANSFORMERS_", "KAGGLE_", "JAX_", "XLA_", "TPU_",
           "LIBTPU_", "TF_", "CUDA_", "NVIDIA_", "TORCH_", "PYTORCH_", "OMP_", "MKL_", "WANDB_", "MLFLOW_")
"""A person's own settings with these prefixes must not change what a test sees."""

OURS = {"HF_HUB_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false", "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "120"}
"""Set for every test and child: nothing is fetched, and texts look the same on every terminal."""

COMPILED = Path(tempfile.mkdtemp(prefix="workings-tests-compiled-"))
"""JAX keeps what it compiled here, so that the hundreds of children of a test run do not compile the same again."""
OURS |= {"JAX_COMPILATION_CACHE_DIR": str(COMPILED), "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "0",
         "JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES": "0"}
atexit.register(shutil.rmtree, COMPILED, ignore_errors=True)


def _clean(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environment.items()
            if not name.startswith(FOREIGN) and name not in ("FORCE_COLOR", "CLICOLOR_FORCE")}
    return kept | OURS


def _set(environment: Mapping[str, str]) -> None:
    os.environ.clear()
    os.environ.update(environment)


# Before any test module is imported: JAX and the Hub read the environment when they are imported.
_set(_clean(os.environ))


@pytest.fixture(autouse=True)
def clean_environment() -> Iterator[None]:
    """What a test (or a library that it imports) sets in the environment is gone when the test ends."""
    clean = _clean(os.environ)  # JAX, for one, sets a variable when it is imported, which may be at any time
    _set(clean)
    yield
    _set(clean)


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
            environment["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={devices}"
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
def workings(run_python: Run) -> Run:
    """Runs ``python -m workings ARGUMENTS`` in a clean child; keywords as of `run_python`."""
    def run(*arguments: str | Path, **options: object) -> subprocess.CompletedProcess[str]:
        return run_python("-m", "workings", *arguments, **options)
    return run
