"""What ends a verb: Ctrl-C and SIGTERM say so and exit with 130; in a thread the caller's own handlers stay."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import pytest

from tests.children import ForkedChild
from workings.training.stopping import ASKED, StopRequest

WAITING = """
import sys, time
from workings.__main__ import run
from workings.cli import main
@main.app.command("wait")
def wait() -> None:
    open("started", "w").close()
    while True:  # a signal that comes just before a sleep begins is handled when the sleep ends
        time.sleep(0.01)
sys.argv = ["workings", "wait"]
run()
"""
STARTED = """    open("started", "w").close()
"""


def wait_for(file: Path, child: ForkedChild) -> None:
    """Wait until a child has written a file."""
    while not file.exists():
        assert child.poll() is None
        time.sleep(0.01)


def stopped(child: ForkedChild) -> str:
    """What a stopped child said, which is no traceback."""
    _, said = child.communicate()
    assert child.returncode == 130
    assert "Traceback" not in said
    return said


@pytest.mark.parametrize(("number", "name"), [(signal.SIGINT, "Ctrl-C"), (signal.SIGHUP, "SIGHUP")])
def test_a_verb_that_is_stopped_says_so(number: signal.Signals, name: str, start_forked, tmp_path: Path) -> None:
    child = start_forked("-c", WAITING, cwd=tmp_path)
    wait_for(tmp_path / "started", child)
    child.send_signal(number)
    assert stopped(child).startswith(f"stopped by {name}: nothing half-written remains")


@pytest.mark.parametrize(("raised", "said_first", "code"), [
    (PermissionError(13, "Permission denied", "secret.jsonl"), "permission is denied for secret.jsonl", 2),
    (OSError(30, "Read-only file system", "input/x"), "could not use input/x: the file system is read-only", 2),
    (OSError(28, "No space left on device", "runs/x"), "could not use runs/x: the disk is full", 1)])
def test_a_place_that_cannot_be_used_is_named(raised: OSError, said_first: str, code: int, workings,
                                              monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.runs.evaluate.ask", Mock(side_effect=raised))
    done = workings("ask", "run", "1+1?", check=False)
    assert done.returncode == code
    assert said_first in done.stderr.partition("\n")[0]


WHILE_IMPORTED = """
import signal, sys
class Stopping:
    def find_spec(self, name, *rest):
        if name == "workings.cli.main":
            sys.meta_path.remove(self)
            signal.raise_signal(signal.SIGTERM)
sys.modules.pop("workings.cli.main", None)
sys.meta_path.insert(0, Stopping())
from workings.__main__ import run
run()
"""
# Python only prints exceptions of a finalizer; a signal is handled between any two instructions.
IN_A_FINALIZER = WAITING.replace(STARTED, """    import signal
    class Dying:
        def __del__(self):
            signal.raise_signal(signal.SIGTERM)
    Dying()
""")
# Python prints a traceback where the first one's handler ignores the second, which has come already.
TWO_AT_ONCE = WAITING.replace(STARTED, """    import os, signal
    both = {signal.SIGINT, signal.SIGTERM}
    signal.pthread_sigmask(signal.SIG_BLOCK, both)
    for number in both:
        os.kill(os.getpid(), number)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, both)
""")


@pytest.mark.parametrize(("code", "name"), [(WHILE_IMPORTED, "SIGTERM"),
                                            (IN_A_FINALIZER, "SIGTERM"), (TWO_AT_ONCE, "Ctrl-C")])
def test_a_signal_at_a_bad_moment_ends_in_one_sentence(code: str, name: str, start_forked, tmp_path: Path) -> None:
    said = stopped(start_forked("-c", code, cwd=tmp_path))
    assert said.startswith(f"stopped by {name}: nothing half-written remains; run the same command to start again\n")
    assert said.count("stopped by") == 1


def test_many_signals_end_in_one_sentence(start_forked, tmp_path: Path) -> None:
    # "started" is written where a signal already leads to clearing up: for one before that nothing would be cleared.
    clearing_up = WAITING.replace(STARTED, """    try:
        open("started", "w").close()
        while True:
            time.sleep(0.01)
    finally:
        open("clearing", "w").close()
        time.sleep(0.3)
        open("cleared", "w").close()
""")
    child = start_forked("-c", clearing_up, cwd=tmp_path)
    wait_for(tmp_path / "started", child)
    child.send_signal(signal.SIGINT)
    wait_for(tmp_path / "clearing", child)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGQUIT, signal.SIGHUP, signal.SIGUSR1):
        child.send_signal(number)
    assert stopped(child).count("stopped by") == 1
    assert (tmp_path / "cleared").exists()


@pytest.mark.parametrize("closed", [">&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_lead_nowhere(closed: str, child_environment, tmp_path: Path) -> None:
    code = ("import os, subprocess, sys; from workings.__main__ import run; sys.argv = ['workings', '--version']\n"
            "try: run()\n"
            "except SystemExit as end: assert end.code == 0\n"
            "sys.stdout.isatty(), sys.stderr.isatty(), sys.stdin.read()\n"
            "assert subprocess.run([sys.executable, '-c', 'import os; [os.fstat(number) for number in range(3)]']"
            ").returncode == 0\n"
            "assert os.open('next', os.O_CREAT) > 2\n")
    done = subprocess.run(["bash", "-c", f'exec "$0" -c "$1" {closed}', sys.executable, code], cwd=tmp_path,
                          env=child_environment(), stdin=subprocess.DEVNULL, check=False)
    assert done.returncode == 0


ON_A_TERMINAL = """
import fcntl, pathlib, signal, sys, termios, time
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # the shell may have it ignored
from workings.cli.interruption import catch_signals
from workings.training.stopping import StopRequest
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
def ready():
    print("ready", flush=True)
def interrupted():
    catch_signals()
    try:
        ready()
        while True:
            time.sleep(0.01)
    except KeyboardInterrupt:
        pass
def asked_to_stop():
    with StopRequest() as stop:
        ready()
        while not stop.requested:
            time.sleep(0.01)
WAY()
print("heard by no one", file=sys.stderr, flush=True)
pathlib.Path("saved").touch()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such terminals")
@pytest.mark.parametrize("way", ["interrupted", "asked_to_stop"])
def test_what_is_said_to_a_closed_terminal_fails_nothing(way: str, child_environment, tmp_path: Path) -> None:
    """A run that writes its next line there saves its checkpoint afterwards."""
    ours, theirs = os.openpty()
    child = subprocess.Popen([sys.executable, "-c", ON_A_TERMINAL.replace("WAY", way)], cwd=tmp_path, stdin=theirs,
                             stdout=theirs, stderr=theirs, start_new_session=True, env=child_environment())
    os.close(theirs)
    assert b"ready" in os.read(ours, 100)
    os.close(ours)
    child.wait()
    assert (tmp_path / "saved").exists()


IN_ONE_LONG_CALL = """
import hashlib
from workings.training.stopping import StopRequest
with StopRequest():
    print("ready", flush=True)
    hashlib.pbkdf2_hmac("sha256", b"", b"", 2**31 - 1)
"""


def test_a_signal_is_answered_while_the_engine_computes(child_environment) -> None:
    """Python would run the handler only when the call returns, which here it never does."""
    child = subprocess.Popen([sys.executable, "-c", IN_ONE_LONG_CALL], env=child_environment(), text=True,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    try:
        assert child.stdout is not None
        assert child.stderr is not None
        assert child.stdout.readline() == "ready\n"
        child.send_signal(signal.SIGTERM)
        assert child.stderr.readline() == f"{ASKED}\n"
    finally:
        child.kill()
        child.communicate()


@pytest.mark.parametrize(("number", "handler"), [
    (signal.SIGHUP, signal.SIG_DFL), (signal.SIGUSR1, signal.SIG_DFL), (signal.SIGHUP, signal.SIG_IGN)])
def test_a_run_takes_further_signals_as_a_request_to_stop_unless_nohup_hides_them(
        number: signal.Signals, handler: signal.Handlers) -> None:
    before = signal.signal(number, handler)  # a suite that `nohup` or `&` started ignores some of them
    try:
        with StopRequest() as stop:
            signal.raise_signal(number)
            assert stop.requested is (handler is signal.SIG_DFL)
            assert signal.getsignal(number) is handler  # a second one is not caught any more
        assert signal.getsignal(number) is handler
    finally:
        signal.signal(number, before)


def test_a_verb_started_by_nohup_in_the_background_is_stopped_by_sigterm(child_environment, tmp_path: Path) -> None:
    """A shell gives what it starts in the background SIGINT ignored, and nohup SIGHUP; a scheduler sends SIGTERM."""
    (tmp_path / "wait.py").write_text(WAITING)
    script = f"nohup {sys.executable} wait.py >said 2>&1 & echo $!; wait $!; echo $?"
    shell = subprocess.Popen(["bash", "-c", script], cwd=tmp_path, env=child_environment(), stdout=subprocess.PIPE,
                             text=True)
    assert shell.stdout is not None
    child = int(shell.stdout.readline())
    while not (tmp_path / "started").exists():
        time.sleep(0.01)
    subprocess.run(["kill", "-INT", str(child)], check=True)  # ignored, as the shell wants it
    subprocess.run(["kill", "-TERM", str(child)], check=True)
    assert shell.communicate()[0].strip() == "130"
    assert "stopped by SIGTERM" in (tmp_path / "said").read_text()


def test_in_a_thread_nothing_is_caught_and_nothing_breaks() -> None:
    """As in the handler of a web server that calls `workings.train`."""
    before, found = signal.getsignal(signal.SIGTERM), []

    def work() -> None:
        with StopRequest() as stop:
            found.append((stop.requested, signal.getsignal(signal.SIGTERM)))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert found == [(False, before)]
