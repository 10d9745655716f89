"""What a run is doing while its own files do not say so yet: planning, loading, compiling, evaluating.

A small file in the person's cache, for who watches on this machine; it goes when the run's process ends or dies. The
run directory is not touched, and a disk that cannot take the file keeps no run from training.
"""

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from workings.hardware.machine import cache_directory
from workings.record.canonical import line
from workings.record.digest import bytes_digest
from workings.record.progress import watch_progress
from workings.record.values import now


@dataclass(frozen=True, kw_only=True)
class Phase:
    """What a process does for a run."""

    run: str
    """Where the run directory will be, absolute."""
    recipe: str
    steps: int
    """Planned steps; 0 while they are not counted yet."""
    doing: str
    """Empty: what its log says."""
    began_at: str
    """When the process began with this run."""
    pid: int
    process: str
    """When the process itself began: a number is given to another one later."""


class _Teller:
    """Writes what begins into a run's file (`workings.record.progress.ProgressListener`)."""

    def __init__(self, first: Phase) -> None:
        self._told = first
        self._open: list[str] = []
        _write(first)

    def begins(self, what: str, usual_seconds: float | None) -> None:
        """Write it."""
        self._open.append(what)
        _write(replace(self._told, doing=what))

    def reaches(self, done: int, total: int) -> None:
        """Nothing: it would be a write for every batch."""

    def ends(self) -> None:
        """Write what goes on around it; nothing between two of them, where the log says how far the run is."""
        self._open.pop()
        _write(replace(self._told, doing=self._open[-1] if self._open else ""))


@contextlib.contextmanager
def phases(run: Path, recipe: str, steps: int) -> Iterator[None]:
    """While this is open, what begins (`workings.record.progress`) is told as what is done for a run."""
    first = Phase(run=str(run.absolute()), recipe=recipe, steps=steps, doing="starting", began_at=now(),
                  pid=os.getpid(), process=process_start(os.getpid()))
    try:
        with watch_progress(_Teller(first)):
            yield
    finally:
        with contextlib.suppress(OSError):
            _place(first.run).unlink(missing_ok=True)


def read_phases() -> dict[Path, Phase]:
    """What living processes of this machine do, by the run directory that they make."""
    by_run = {}
    for path in (cache_directory() / "phases").glob("*.json"):
        try:
            told = Phase(**json.loads(path.read_bytes()))
        # Gone since it was listed, or written by another version.
        except (OSError, ValueError, TypeError):
            continue
        if process_start(told.pid) == told.process != "":
            by_run[Path(told.run)] = told
    return by_run


def process_start(pid: int, proc: Path = Path("/proc")) -> str:
    """When a process began, so that a number that is used again is told apart; "" if it is gone."""
    if not (proc / "self").exists():  # macOS
        answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return answer.stdout.strip()
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # The second field is the program's name in brackets and may itself hold blanks and brackets, so fields are counted
    # behind the last one: the start in clock ticks is the 22nd of all.
    return stat.rpartition(")")[2].split()[19]


def _place(run: str) -> Path:
    return cache_directory() / "phases" / f"{bytes_digest(run.encode())[:24]}.json"


def _write(told: Phase) -> None:
    place = _place(told.run)
    # Whole or not at all, and not waited for: what a power cut takes is of no use after it.
    with contextlib.suppress(OSError):
        place.parent.mkdir(parents=True, exist_ok=True)
        temporary = place.with_suffix(".tmp")
        temporary.write_bytes(line(asdict(told)))
        temporary.replace(place)
