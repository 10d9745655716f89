"""Child processes of tests: copies of a process that has imported the frameworks, made by Python's own fork server.

A whole command in a new process takes seconds, most of them imports. `multiprocessing` starts one server for each
process that runs tests; the server imports `PRELOADED` once, starts no thread and no backend, and forks every child. A
child has separate arguments, working directory, environment, standard streams and signal handlers, like a new
process.

Two things it cannot show: which modules a command imports, and what libraries read from the environment while they are
imported. Tests of those start a real process (the fixture `run_python`).
"""

import importlib
import multiprocessing
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

FORKS = sys.platform == "linux"
"""Elsewhere a fork of a process with frameworks in it is not safe: children are new processes."""

PRELOADED = (
    "scipy.stats", "tokenizers", "jinja2", "jax.experimental.shard_map", "jax.experimental.multihost_utils", "optax",
    "torch.distributed.fsdp", "transformers", "peft", "workings.cli.main", "workings.engines.jax.engine",
    "workings.engines.torch.engine", "workings.evidence.verify", "workings.reports.html",
    "workings.runs.train_and_evaluate",
)
"""Imported before the first fork. None of them may start a thread or a backend."""

READ_AT_IMPORT = ("HF_", "TRANSFORMERS_", "TORCH_", "MKL_", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "LD_", "GLIBC_")
"""Variables that a library reads once while it is imported: a child that needs another value is a real process."""

JAX_SETTINGS = ("jax_platforms", "jax_compilation_cache_dir")
"""Settings that JAX reads from the environment while it is imported and that can be set afterwards."""


class ForkedChild:
    """``python -m MODULE …`` or ``python -c CODE …`` as a fork, with the parts of `subprocess.Popen` that tests use."""

    def __init__(self, arguments: Sequence[str], cwd: Path, environment: Mapping[str, str], stdin: str) -> None:
        self.args = [sys.executable, *arguments]
        self._folder = Path(tempfile.mkdtemp(prefix="workings-child-"))
        (self._folder / "0").write_text(stdin)
        context = multiprocessing.get_context("forkserver")
        context.set_forkserver_preload(list(PRELOADED))
        self._process = context.Process(target=become, args=(
            list(arguments), str(cwd), dict(environment), str(self._folder)))
        self._process.start()
        self.pid = self._process.pid

    @property
    def returncode(self) -> int | None:
        """The exit code, or None while it runs; -N where signal N ended it."""
        return self._process.exitcode

    def poll(self) -> int | None:
        """The same."""
        return self.returncode

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        self._process.join()
        assert self.returncode is not None
        return self.returncode

    def communicate(self) -> tuple[str, str]:
        """Wait for its end; what it wrote to standard output and standard error."""
        self.wait()
        texts = [(self._folder / number).read_text(errors="replace") for number in "12"]
        shutil.rmtree(self._folder)
        return texts[0], texts[1]

    def send_signal(self, number: int) -> None:
        """Send it a signal, where it still runs."""
        if self.poll() is None:
            os.kill(self.pid or 0, number)


def start(arguments: Sequence[str], *, cwd: Path | None, environment: Mapping[str, str], stdin: str = ""
          ) -> "ForkedChild | subprocess.Popen[str]":
    """Start ``python ARGUMENTS`` as a forked child; a new process where this system cannot fork.

    Raises ``ValueError`` if libraries read one of these variables while they are imported, which was before the fork.
    """
    different = {name for name in {*environment, *os.environ} if environment.get(name) != os.environ.get(name)}
    if name := next((name for name in sorted(different) if name.startswith(READ_AT_IMPORT)), ""):
        raise ValueError(f"{name} is read at import: start a real process with `run_python`")
    if FORKS:
        return ForkedChild(arguments, cwd or Path.cwd(), environment, stdin)
    with tempfile.TemporaryFile("w+") as given:
        given.write(stdin)
        given.seek(0)
        return subprocess.Popen([sys.executable, *arguments], cwd=cwd, env=dict(environment), stdin=given,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def become(arguments: list[str], cwd: str, environment: dict[str, str], streams: str) -> None:
    """In the forked child: become the process that was asked for, and run to its end."""
    for number, flags in enumerate((os.O_RDONLY, os.O_WRONLY | os.O_CREAT, os.O_WRONLY | os.O_CREAT)):
        stream = os.open(f"{streams}/{number}", flags, 0o600)
        os.dup2(stream, number)
        os.close(stream)
    sys.stdin = open(0, closefd=False)  # noqa: SIM115 - `multiprocessing` has closed the one there was
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1"):  # the shell may have some ignored
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.chdir(cwd)
    # Set by imports of JAX and PyTorch: without it an absent TPU is looked for in the network for minutes.
    by_import = {name: value for name, value in os.environ.items() if name.startswith(("TPU_", "KMP_"))}
    os.environ.clear()
    os.environ.update(by_import | environment)
    _set_again()
    option, what, *words = arguments
    extra = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:0] = [cwd if option == "-m" else "", *extra]
    importlib.invalidate_caches()
    sys.orig_argv = [sys.executable, *arguments]
    sys.argv = [what if option == "-m" else "-c", *words]
    if option == "-m":
        runpy.run_module(what, run_name="__main__", alter_sys=True)
    else:
        exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})


def _set_again() -> None:
    """Settings that were read from the server's environment when it imported, from this child's."""
    import jax
    import torch

    tempfile.tempdir = None  # TMPDIR is asked for again
    for name in JAX_SETTINGS:
        jax.config.update(name, os.environ.get(name.upper()))
    jax.config.update("jax_enable_compilation_cache",
                      os.environ.get("JAX_ENABLE_COMPILATION_CACHE", "true") == "true")
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
