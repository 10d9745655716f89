"""Jobs: commands of this package in child processes, which go on when the page is closed.

The page starts ``python -m workings.ui.jobs FOLDER``, which runs one command. The folder holds `job.json` (what to
run), `stdout.txt`, `stderr.txt`, `pid.json` once it runs, and `exit.json` at the end. To stop a job the page sends it
SIGINT, which it passes on: `workings train` then saves a checkpoint and seals the run.
"""

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, Field

from workings.errors import Interrupted, RequestError
from workings.record import atomic
from workings.record.phase import process_start
from workings.record.values import now
from workings.ui.folder import end_of_text

MAX_OUTPUT_CHARACTERS = 60_000
"""Characters of the end of an output that the page shows."""
STARTING_SECONDS = 20
"""Most seconds until a child has written its process id; before, it imports libraries."""
PROGRAM = [sys.executable, "-m", "workings"]
TIMEOUT_SECONDS = 90
"""Most seconds of a command that a page waits for."""
JobState = Literal["running", "done", "stopped", "failed", "lost"]


class Job(BaseModel):
    """One command."""

    id: str
    verb: str
    command: str = Field(description="As it would be typed")
    state: JobState
    code: int | None = None
    started_at: str
    finished_at: str = ""
    log: str = Field(description="End of its standard error")
    output: str = Field(description="End of its standard output, without the answer")
    answer: dict[str, Any] | None = Field(default=None, description="Its `--json` answer")
    arguments: list[str] = Field(default=[], exclude=True, description="Words of the command")
    subject: str = Field(default="", description="The run or recipe that it works on")


@dataclass(frozen=True)
class Jobs:
    """Commands of one folder of runs; their output is in the user's cache."""

    place: Path
    cwd: Path

    def start(self, verb: str, arguments: list[str], subject: str = "") -> Job:
        """Start ``workings VERB ARGUMENTS --json``; the caller has checked every argument."""
        # Sorts by time; the random part is for two starts at the same moment.
        identity = f"{time.time_ns():020d}-{secrets.token_hex(3)}"
        folder = self.place / identity
        folder.mkdir(parents=True)
        # `--json` first, because the arguments may contain `--`.
        words = [*verb.split(), "--json", *arguments]
        atomic.write_json(folder / "job.json", {
            "verb": verb, "arguments": arguments, "argv": [*PROGRAM, *words], "cwd": str(self.cwd),
            "command": shlex.join(["workings", *verb.split(), *arguments]), "started_at": now(),
            "subject": subject})
        with (folder / "child.txt").open("wb") as output:
            # In a new session, so that Ctrl-C in the page's terminal does not reach it.
            child = subprocess.Popen([sys.executable, "-m", "workings.ui.jobs", str(folder)], cwd=self.cwd,
                                     stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True)
        threading.Thread(target=child.wait, daemon=True).start()  # so that it does not become a zombie
        return self.get(identity)

    def get(self, identity: str) -> Job:
        """A job as it is now. Raises `RequestError` if there is none."""
        folder = self._folder(identity)
        job = json.loads((folder / "job.json").read_bytes())
        end_file = folder / "exit.json"  # exit code and time; missing while it runs
        ended = json.loads(end_file.read_bytes()) if end_file.is_file() else None
        output, answer = end_of_text(folder / "stdout.txt", MAX_OUTPUT_CHARACTERS), None
        if ended:
            output, answer = _split(output)
            if answer and "error" in answer:  # which is in the log, too
                answer = None
        return Job(id=identity, state=self._state(folder, ended), output=output, answer=answer, **ended or {},
                   log=end_of_text(folder / "stderr.txt", MAX_OUTPUT_CHARACTERS),
                   **{key: job[key] for key in ("verb", "command", "arguments", "started_at", "subject")})

    def all(self) -> list[Job]:
        """The newest 50 jobs, the newest first."""
        return [self.get(file.parent.name) for file in self._files()[:50]]

    def about(self, verb: str, subject: str, limit: int) -> list[Job]:
        """The newest jobs of a command about a subject, at most ``limit``, among the newest 200 jobs."""
        found: list[Job] = []
        for file in self._files()[:200]:
            job = json.loads(file.read_bytes())
            if len(found) < limit and job["verb"] == verb and job["subject"] == subject:
                found.append(self.get(file.parent.name))
        return found

    def _files(self) -> list[Path]:
        return sorted(self.place.glob("*/job.json"), reverse=True)

    def lines(self, identity: str, offset: int) -> Iterator[tuple[int, bytes]]:
        """Complete lines of a job's standard output after an offset in bytes, each with the offset of its end."""
        path = self._folder(identity) / "stdout.txt"
        if not path.is_file():
            return
        with path.open("rb") as file:
            file.seek(offset)
            for line in file:
                offset += len(line)
                if line.endswith(b"\n"):  # else it is still being written
                    yield offset, line

    def stop(self, identity: str) -> Job:
        """Ask a job to stop, as Ctrl-C would. Raises `RequestError` if it is not running."""
        job = self.get(identity)
        path = self.place / identity / "pid.json"
        if job.state != "running" or not path.is_file():
            raise RequestError(f"job {identity} is not running", "a running one", "")
        # A running job's process has the recorded start time, so the process id was not reused.
        os.kill(json.loads(path.read_bytes())["pid"], signal.SIGINT)
        return job

    def _folder(self, identity: str) -> Path:
        folder = self.place / identity
        # Dots and slashes could lead out of the folder.
        if not all(sign.isalnum() or sign == "-" for sign in identity) or not (folder / "job.json").is_file():
            raise RequestError(f"there is no job {identity[:60]}", "one that this page started", "")
        return folder

    def _state(self, folder: Path, ended: dict[str, Any] | None) -> JobState:
        if ended is not None:
            states: dict[int, JobState] = {0: "done", Interrupted.exit_code: "stopped"}
            return states.get(ended["code"], "failed")
        path = folder / "pid.json"
        if not path.is_file():  # the child is starting, or died before it wrote a file
            return "running" if time.time() - folder.stat().st_mtime < STARTING_SECONDS else "lost"
        process = json.loads(path.read_bytes())
        return "running" if process_start(process["pid"]) == process["started"] != "" else "lost"


def _split(text: str) -> tuple[str, dict[str, Any] | None]:
    """The output before the answer, and the answer, which is the last line; None if there is none."""
    before, _, last = text.rstrip("\n").rpartition("\n")
    answer = json_object(last)
    return (text, None) if answer is None else (before, answer)


def json_object(line: str | bytes) -> dict[str, Any] | None:
    """The JSON object in a line; None if there is none."""
    try:
        value = json.loads(line)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def ask(words: Sequence[str], cwd: Path, timeout: float | None = TIMEOUT_SECONDS) -> dict[str, Any]:
    """The answer of ``workings WORDS --json``. Raises `RequestError` if it is an error, or there is none in time."""
    # The exit code does not matter: 1 may be an answer (`data check` found something).
    try:
        done = subprocess.run([*PROGRAM, *words, "--json"], cwd=cwd, text=True, stdin=subprocess.DEVNULL,
                              capture_output=True, timeout=timeout, check=False)
    except subprocess.TimeoutExpired:
        raise RequestError(f"workings {' '.join(words)} took too long", f"an answer within {timeout} s",
                           "run the command in a terminal") from None
    value = _split(done.stdout)[1]
    if value is None:
        error_text = done.stderr.strip() or f"exit code {done.returncode}"
        raise RequestError(f"workings {' '.join(words)} gave no answer: {error_text[-1500:]}", "an answer")
    if error := value.get("error"):
        raise RequestError(error.get("given", error["message"]), error.get("expected", ""), error.get("try", ""))
    return value


def main(folder: Path) -> int:
    """Run the command of a job's folder; returns its exit code."""
    job = json.loads((folder / "job.json").read_bytes())
    children: list[subprocess.Popen[bytes]] = []  # the child, once it is started

    def pass_on(number: int, frame: object) -> None:
        for child in children:
            child.send_signal(number)

    # Before the child starts: it then has the default handlers, even if this process ignores the signals.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as error:
        child = subprocess.Popen(job["argv"], stdin=subprocess.DEVNULL, stdout=out, stderr=error, cwd=job["cwd"])
        children.append(child)
        # From now on the page can stop the job.
        atomic.write_json(folder / "pid.json", {"pid": os.getpid(), "started": process_start(os.getpid())})
        code = child.wait()
    # For the page this file means the end of the job.
    atomic.write_json(folder / "exit.json", {"code": code, "finished_at": now()})
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
