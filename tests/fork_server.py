"""Children that start at once: a process that has imported every framework forks one for each request.

A whole command in a process of its own takes ten seconds, most of it imports. The server imports them once for all
tests, starts no thread and no backend, and forks a copy of itself for every child. What a child sees is what a new
process would see: its own arguments, working directory, environment, standard streams and default signal handlers.

Scoring processes are forked as well, from a second server which has imported nothing but the rules: every score of a
test and every verification starts one, nine hundred in all, and compiling the patterns takes a tenth of a second.

Two things it cannot show: which modules a command imports, and what libraries read from the environment while they are
imported. Tests of those start a real process (`run_python`).

    python -m tests.fork_server FOLDER OWNER     serve at FOLDER/socket until the process OWNER has ended
    python -m tests.fork_server FOLDER/scoring OWNER     the same for scoring processes
"""

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import shlex
import signal
import socket
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace
from typing import Any, BinaryIO, NoReturn

from tests import kept_executables, kept_traces
from workings.engines.source_digest import source_digest

ROOT = Path(__file__).resolve().parent.parent
FORKS = sys.platform == "linux"
"""Elsewhere a fork of a process with frameworks in it is not safe, or there is none: children are new processes."""

PRELOADED = (
    "scipy.stats", "tokenizers", "jinja2", "pydantic", "rfc8785", "jax", "jax.numpy", "jax.experimental.shard_map",
    "jax.experimental.multihost_utils", "jax.experimental.serialize_executable",
    "optax", "torch", "torch.distributed.fsdp", "transformers", "peft", "fastapi", "uvicorn",
    "nbformat", "tensorboard.summary", "tensorboard.plugins.hparams.summary_v2",
    "transformers.models.gemma.modeling_gemma", "transformers.models.gemma2.modeling_gemma2",
    "transformers.models.gemma3.modeling_gemma3", "transformers.models.gpt2.modeling_gpt2",
    "workings.cli.main", "workings.data.generators.addition", "workings.engines.jax.engine",
    "workings.engines.torch.engine", "workings.evidence.verify", "workings.models.tokenizer_training",
    "workings.publish.kaggle", "workings.publish.pack", "workings.reports.html", "workings.runs.parity",
    "workings.runs.quickstarts.tiny", "workings.runs.replay.replay", "workings.runs.train",
    "workings.runs.train_and_evaluate",
)
"""Imported before the first fork. None of them may start a thread or a backend."""

SCORING = ("workings.scoring.worker",)
"""What scoring processes run, imported before the first of them is forked, and no framework beside it."""

READ_AT_IMPORT = ("HF_", "TRANSFORMERS_", "TORCH_", "MKL_", "PYTHONHASHSEED", "PYTHONOPTIMIZE", "LD_", "GLIBC_")
"""Variables that a library reads once while it is imported: a child that wants them otherwise is a real process."""

JAX_SETTINGS = {"JAX_PLATFORMS": "jax_platforms", "JAX_COMPILATION_CACHE_DIR": "jax_compilation_cache_dir"}
JAX_KEEPS_PROGRAMS = ("JAX_ENABLE_COMPILATION_CACHE", "jax_enable_compilation_cache")
"""Variables that JAX reads while it is imported and that can be set afterwards."""

FORKED_AGAIN = {"workings.engines.torch.trace.target": "workings.engines.torch.trace.target",
                "workings.engines.jax.aot_compile": "workings.engines.jax.target",
                "workings.doctor.kernels": "workings.doctor.kernels"}
"""Modules that tests and forked children start by themselves, as a run does, and that are forked, too, with the module
that starts each: most of their time is the import of PyTorch or JAX."""

set_by_imports: dict[str, str] = {}
"""Variables that libraries set while they are imported, as they would in the child."""
_STREAMS = 3


def interpreter(folder: Path) -> Path:
    """A Python that forks some modules where a server serves or starts in this folder, and is the real one otherwise.

    Where ``PYTHONPATH`` is set it is the real one as well: what lies there may change what Python finds. The other
    package, which most tests of runs have there, changes nothing of what these modules import.
    """
    path = folder / "python"
    if not path.exists():
        real, client = shlex.quote(sys.executable), shlex.quote(str(ROOT / "tests" / "fork_client.py"))
        other, here = shlex.quote(str(ROOT / "tests" / "other_package")), shlex.quote(str(folder))
        path.write_text(f"""#!/bin/sh
case "$1 $2" in
{"|".join(f'"-m {name}"' for name in FORKED_AGAIN)})
    if [ "${{PYTHONPATH:-{other}}}" = {other} ]; then
        while [ -d {here}/starting ] && [ ! -S {here}/socket ] && [ ! -e {here}/failed ]; do sleep 0.1; done
        [ ! -S {here}/socket ] || {{ shift; exec {real} -S {client} "$@"; }}
    fi ;;
esac
exec {real} "$@"
""")
        path.chmod(0o755)
    return path


class ForkedChild:
    """A child of the server, with the parts of `subprocess.Popen` that tests use."""

    def __init__(self, connection: socket.socket, pid: int, arguments: Sequence[str],
                 files: Sequence[BinaryIO]) -> None:
        self._connection, self._files = connection, files
        self.args = [sys.executable, *arguments]
        self.pid = pid
        self.returncode: int | None = None

    def communicate(self) -> tuple[str, str]:
        """Wait for its end; what it wrote to standard output and standard error."""
        self.wait()
        texts = []
        for file in self._files:
            file.seek(0)
            texts.append(file.read().decode(errors="replace"))
            file.close()
        return texts[0], texts[1]

    def poll(self) -> int | None:
        """The exit code, or None while it runs; -N where signal N ended it."""
        if self.returncode is None and select.select([self._connection], [], [], 0)[0]:
            self._read()
        return self.returncode

    def wait(self) -> int:
        """Wait for its end; the exit code."""
        if self.returncode is None:
            self._read()
        assert self.returncode is not None
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Send it a signal, where it still runs."""
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it ended, and the server is about to say so
                os.kill(self.pid, number)

    def _read(self) -> None:
        answer = self._connection.makefile().readline()
        self._connection.close()
        if not answer:
            raise died(Path(os.environ["TESTS_FORK_FOLDER"]))
        self.returncode = json.loads(answer)["code"]


class ForkedScoring(ForkedChild):
    """A scoring process, with the parts of `subprocess.Popen` that the product uses of one."""

    def __init__(self, connection: socket.socket, pid: int, arguments: Sequence[str], stdin: BinaryIO,
                 stdout: BinaryIO) -> None:
        super().__init__(connection, pid, arguments, ())
        self.stdin, self.stdout = stdin, stdout

    def kill(self) -> None:
        """End it at once."""
        self.send_signal(signal.SIGKILL)


def died(folder: Path) -> RuntimeError:
    """The error of everybody who asks a server that is gone, with what it said last."""
    return RuntimeError(f"the server that forks children has died: {(folder / 'log').read_text()[-2000:]}")


class Server:
    """How a test asks for children; the server is started by the first one that asks, or before the first test."""

    def __init__(self, folder: Path, owner: int) -> None:
        self.folder, self.owner = folder, owner

    def ready(self, environment: Mapping[str, str]) -> list[str]:
        """Wait until the server serves; the words with which a shell or a notebook runs a module as a forked child."""
        if not FORKS:
            return [sys.executable, "-m"]
        self._connect(environment).close()
        return [sys.executable, str(ROOT / "tests" / "fork_client.py")]

    def start(self, arguments: Sequence[str], *, cwd: Path | None, environment: Mapping[str, str],
              stdin: str = "") -> "ForkedChild | subprocess.Popen[str]":
        """Start ``python ARGUMENTS`` (``-m MODULE …`` or ``-c CODE …``); a new process where this system cannot fork.

        Raises:
            ValueError: libraries read one of these variables while they are imported, which was before the fork.
        """
        if name := _read_at_import(environment):
            raise ValueError(f"{name} is read at import: start a real process with `run_python`")
        if not FORKS:
            return _new_process(arguments, cwd, environment, stdin)
        given, *written = (os.fdopen(os.memfd_create(name), "w+b") for name in ("in", "out", "error"))
        with given:
            given.write(stdin.encode())
            given.seek(0)
            connection, pid = self._fork(arguments, cwd, environment, [file.fileno() for file in (given, *written)])
        return ForkedChild(connection, pid, arguments, written)

    def start_scoring(self, command: Sequence[str], *, env: Mapping[str, str], stdin: int,
                      stdout: int) -> "ForkedScoring | subprocess.Popen[bytes]":
        """What `subprocess.Popen` does for a scoring process, by a fork; arguments as there."""
        if _read_at_import(env):
            return subprocess.Popen(command, env=env, stdin=stdin, stdout=stdout)
        (read, given), (answers, write) = os.pipe(), os.pipe()
        try:
            connection, pid = self._fork(command[1:], None, env, [read, write, 2])
        finally:
            os.close(read)
            os.close(write)
        return ForkedScoring(connection, pid, command[1:], os.fdopen(given, "wb"), os.fdopen(answers, "rb"))

    def _fork(self, arguments: Sequence[str], cwd: Path | None, environment: Mapping[str, str],
              streams: Sequence[int]) -> tuple[socket.socket, int]:
        """The connection that tells how the child ended, and its process number."""
        request = json.dumps({"arguments": list(arguments), "cwd": str(cwd or Path.cwd()),
                              "environment": dict(environment)}).encode()
        connection = self._connect(environment)
        connection.sendall(len(request).to_bytes(8, "big") + request)
        socket.send_fds(connection, [b"f"], streams)
        try:
            return connection, int.from_bytes(_exactly(connection, 8), "big")
        except ConnectionError:
            raise died(self.folder) from None

    def begin(self, environment: Mapping[str, str]) -> None:
        """Start the server where nobody has, and do not wait until it serves."""
        with contextlib.suppress(FileExistsError):
            (self.folder / "starting").mkdir()
            self._serve(environment)

    def _connect(self, environment: Mapping[str, str]) -> socket.socket:
        self.begin(environment)
        connection = socket.socket(socket.AF_UNIX)
        while True:
            try:
                connection.connect(str(self.folder / "socket"))
                return connection
            except ConnectionRefusedError:  # there is a socket, and nobody behind it
                raise died(self.folder) from None
            except FileNotFoundError:
                if (self.folder / "failed").exists():
                    raise died(self.folder) from None
                time.sleep(0.05)

    def _serve(self, environment: Mapping[str, str]) -> None:
        own = {name: value for name, value in environment.items() if name != "XLA_FLAGS"}
        with (self.folder / "log").open("wb") as log:
            child = subprocess.Popen([sys.executable, "-m", "tests.fork_server", str(self.folder), str(self.owner)],
                                     cwd=ROOT, env=own, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                     start_new_session=True)
        child.returncode = 0  # it ends with its owner, and nobody here waits for it


def fork_scoring(folder: Path, owner: int) -> SimpleNamespace:
    """What stands for `subprocess` where the product starts scoring processes."""
    (folder / "scoring").mkdir(exist_ok=True)
    return SimpleNamespace(Popen=Server(folder / "scoring", owner).start_scoring, PIPE=subprocess.PIPE)


def _read_at_import(environment: Mapping[str, str]) -> str:
    """A variable that libraries would have read while they were imported, and that is another one here; or ""."""
    return next((name for name in {*environment, *os.environ}
                 if name.startswith(READ_AT_IMPORT) and environment.get(name) != os.environ.get(name)), "")


def _new_process(arguments: Sequence[str], cwd: Path | None, environment: Mapping[str, str],
                 stdin: str) -> "subprocess.Popen[str]":
    with tempfile.TemporaryFile("w+") as given:
        given.write(stdin)
        given.seek(0)
        return subprocess.Popen([sys.executable, *arguments], cwd=cwd, env=dict(environment), stdin=given,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def _exactly(connection: socket.socket, size: int) -> bytes:
    parts = b""
    while len(parts) < size:
        part = connection.recv(size - len(parts))
        if not part:
            raise ConnectionError("the other side has ended")
        parts += part
    return parts


def do_not_wait_for_the_disk() -> None:
    """From here on this process does not wait until its files are on the disk.

    Tests end processes and never the machine, so nothing can be lost; a short run waits three hundred times.
    """
    os.fsync = lambda descriptor: None


def import_less() -> None:
    """Hide scikit-learn, which transformers imports for a way to draw that nobody here uses: a second in a process."""
    sys.modules.setdefault("sklearn", None)  # type: ignore[arg-type]


def remember_packages() -> None:
    """From here on what an installed package says of itself is read once: every run asks for versions, requirements
    and entry points of dozens of packages. One that a test puts on the path is read each time, as ever."""
    for name in ("metadata", "entry_points"):
        read, kept = getattr(metadata.Distribution, name).fget, {}

        def once(package: Any, read: Any = read, kept: dict[str, Any] = kept) -> Any:
            place = str(package._path)
            if not place.startswith(sys.prefix):
                return read(package)
            if place not in kept:
                kept[place] = read(package)
            return kept[place]

        setattr(metadata.PathDistribution, name, property(once))


def remember_recipes() -> None:
    """From here on the text of a recipe is parsed once, in pure Python: every run, every verification and every plan
    reads one, and nearly all are those of a few tests and the shipped ones."""
    load: Any = importlib.import_module("workings.config.load")
    parse = lru_cache(1000)(load.parse_yaml)
    load.parse_yaml = lambda text, origin: deepcopy(parse(text, origin))


def collect_nothing() -> None:
    """From here until `collect_seldom` look for no unreachable cycles: what is imported stays, and looking through it
    again and again takes a fifth of the time of the imports."""
    gc.disable()


def collect_seldom() -> None:
    """From here on look for unreachable cycles seldom, and never among what exists now.

    With Python's own numbers a thirteenth of the suite's time was spent on it: tracing a program makes objects by the
    hundred thousand, nearly all of which die by their count of references.
    """
    gc.freeze()  # what is imported stays, cycles among it too, and a collection in a forked child copies no page of it
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def end_at_once() -> None:
    """From here on forked children leave out what PyTorch does when a process ends: it counts what it compiled and
    takes its operators apart, which is most of the time of a command that has nothing to do."""
    for finalizer in tuple(weakref.finalize._registry):  # type: ignore[attr-defined]
        finalizer.atexit = False
    if "torch._dynamo.utils" in sys.modules:
        atexit.unregister(sys.modules["torch._dynamo.utils"].dump_compile_times)


def serve(folder: Path, owner: int) -> None:
    """Import everything, then fork a child for every connection until ``owner`` has ended."""
    import threading

    do_not_wait_for_the_disk()
    collect_nothing()
    import_less()
    remember_packages()
    before = dict(os.environ)
    if folder.name == "scoring":
        for name in SCORING:
            importlib.import_module(name)
    else:
        for name in PRELOADED:
            importlib.import_module(name)
        kept_traces.keep()
        kept_executables.keep()
        _remember()
        importlib.import_module("workings.scoring.worker_pool").subprocess = fork_scoring(folder, owner)
    set_by_imports.update({name: value for name, value in os.environ.items() if before.get(name) != value})
    assert threading.active_count() == 1, "a fork would copy one thread and leave the others' locks locked"
    collect_seldom()
    end_at_once()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket.new"))
    listener.listen(64)
    (folder / "socket.new").rename(folder / "socket")  # a client that sees the name can connect
    listener.settimeout(1.0)
    children: dict[int, socket.socket] = {}
    while Path(f"/proc/{owner}").exists():
        with contextlib.suppress(TimeoutError):
            readable = select.select([listener], [], [], 0.005 if children else 1.0)[0]
            if readable:
                _accept(listener, children)
        _reap(children)


def _remember() -> None:
    """Ask once what every child would ask, of files that do not change: a quarter of what a short run computes."""
    remember_recipes()
    kept_executables.folder()
    source_digest("workings.engines.torch", "workings.models", "workings.objectives", beside="workings.engines")
    list(importlib.import_module("workings.doctor.versions").check_versions({}))
    importlib.import_module("workings.models.registry").families()
    metadata.entry_points()


def _accept(listener: socket.socket, children: dict[int, socket.socket]) -> None:
    connection, _ = listener.accept()
    try:
        request, streams = _asked(connection)
    except (OSError, ValueError):  # whoever asked was ended, or only asked whether this serves
        connection.close()
        return
    try:
        pid = os.fork()
        if pid == 0:
            _become_child(request, streams, (listener, connection, *children.values()))
    except OSError as error:  # no memory or no process left: whoever asked sees that there is no answer
        print(error, file=sys.stderr, flush=True)
        connection.close()
        return
    finally:
        for stream in streams:
            os.close(stream)
    children[pid] = connection
    try:
        connection.sendall(pid.to_bytes(8, "big"))
    except OSError:  # whoever asked was ended in the meantime, and the child would have been
        os.kill(pid, signal.SIGKILL)


def _asked(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A request and the three streams of its child; ``OSError`` or ``ValueError`` where it does not come whole."""
    connection.settimeout(60.0)  # a client that was stopped in the middle must not stop everybody
    request = json.loads(_exactly(connection, int.from_bytes(_exactly(connection, 8), "big")))
    _, streams, _, _ = socket.recv_fds(connection, 1, _STREAMS)
    connection.settimeout(None)
    if len(streams) != _STREAMS:
        raise ConnectionError("the streams are missing")
    return request, streams


def _become_child(request: dict[str, Any], streams: Sequence[int], of_the_server: Sequence[socket.socket]) -> NoReturn:
    """Run what was asked for in this fork of the server, and end."""
    code = 1
    try:
        for each in of_the_server:
            each.close()
        code = _child(request, streams)
    finally:  # a signal may come before it is a child of its own, which must never go on as a second server
        os._exit(code)


def _reap(children: dict[int, socket.socket]) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        connection = children.pop(pid)
        with contextlib.suppress(OSError):  # whoever asked does not wait any more
            connection.sendall((json.dumps({"code": os.waitstatus_to_exitcode(status)}) + "\n").encode())
        connection.close()


def _child(request: dict[str, Any], streams: Sequence[int]) -> int:
    """Become the process that was asked for; its exit code."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for name in ("SIGTERM", "SIGHUP", "SIGQUIT", "SIGUSR1"):  # whatever the shell gave to the suite
        signal.signal(getattr(signal, name), signal.SIG_DFL)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(set_by_imports | request["environment"])
    _set_again()
    option, what, *words = request["arguments"]
    extra = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
    sys.path[:0] = [request["cwd"] if option == "-m" else "", *extra]
    importlib.invalidate_caches()
    sys.orig_argv = [sys.executable, *request["arguments"]]
    if "TESTS_FORK_FOLDER" in os.environ and "jax" in sys.modules:
        sys.executable = str(interpreter(Path(os.environ["TESTS_FORK_FOLDER"])))
    code: object = 0
    try:
        if option == "-m":
            sys.argv = [what, *words]
            runpy.run_module(what, run_name="__main__", alter_sys=True)
        else:
            sys.argv = ["-c", *words]
            exec(compile(what, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        code = end.code
        if isinstance(code, str):
            print(code, file=sys.stderr)
            code = 1
    except KeyboardInterrupt:
        sys.excepthook(*sys.exc_info())
        _end_by(signal.SIGINT)
    except BaseException:  # noqa: BLE001 - a child must never go on as a second server
        sys.excepthook(*sys.exc_info())
        code = 1
    return _finish(code)


def _set_again() -> None:
    """Settings that were read from the server's environment when it imported, from this child's."""
    tempfile.tempdir = None  # TMPDIR is asked for again
    if "jax" not in sys.modules:
        return
    import jax
    import torch

    for name, setting in JAX_SETTINGS.items():
        jax.config.update(setting, os.environ.get(name))
    name, setting = JAX_KEEPS_PROGRAMS
    jax.config.update(setting, os.environ.get(name, "true") == "true")
    if "OMP_NUM_THREADS" in os.environ:
        torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))


def _end_by(number: int) -> None:
    """End like a process that a signal ended."""
    _finish(0)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def _finish(code: object) -> int:
    """What the interpreter does at its end: waits for threads, runs what was registered, writes what is buffered."""
    import threading

    threading._shutdown()  # type: ignore[attr-defined]
    atexit._run_exitfuncs()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(ValueError, OSError):
            stream.flush()
    return code if isinstance(code, int) else 0 if code is None else 1


if __name__ == "__main__":
    place = Path(sys.argv[1])
    try:
        serve(place, int(sys.argv[2]))
    except BaseException:
        (place / "failed").touch()
        raise
