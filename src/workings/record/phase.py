"""What a run does while its own files do not show it: planning, loading, compiling, evaluating.

A small file in the user's cache says so to observers on this machine, as long as the run's process lives.
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
from workings.record.progress import ProgressListener, report_progress_to


@dataclass(frozen=True, kw_only=True)
class Phase:
    """Current phase of a process that trains a run."""

    run: str
    """Absolute path of the run directory."""
    doing: str
    """Current operation; empty while it takes steps, which its log shows."""
    pid: int
    process: str
    """Start of the process, because its number is given to another process later."""


class _PhaseWriter(ProgressListener):
    """Writes the current operation into a run's phase file. Parts are not written: one for every batch would be."""

    def __init__(self, first: Phase) -> None:
        self._first = first
        self._open = [""]
        _write(first)

    def begins(self, what: str) -> None:
        self._open.append(what)
        _write(replace(self._first, doing=what))

    def ends(self) -> None:
        self._open.pop()
        _write(replace(self._first, doing=self._open[-1]))


@contextlib.contextmanager
def phases(run: Path) -> Iterator[None]:
    """Context manager that writes the operations that begin (`workings.record.progress`) as the phase of a run."""
    first = Phase(run=str(run.absolute()), doing="starting", pid=os.getpid(), process=process_start(os.getpid()))
    try:
        with report_progress_to(_PhaseWriter(first), watching=True):
            yield
    finally:
        with contextlib.suppress(OSError):
            _phase_file(first.run).unlink(missing_ok=True)


def read_phases() -> dict[Path, Phase]:
    """Phases of the living processes of this machine, by run directory."""
    by_run = {}
    for path in (cache_directory() / "phases").glob("*.json"):
        try:
            phase = Phase(**json.loads(path.read_bytes()))
        # Gone since it was listed, or written by another version.
        except (OSError, ValueError, TypeError):
            continue
        if phase.process and process_start(phase.pid) == phase.process:
            by_run[Path(phase.run)] = phase
    return by_run


def process_start(pid: int, proc: Path = Path("/proc")) -> str:
    """Start of a process, which tells it apart from a later one with the same number; empty if it is gone."""
    if not (proc / "self").exists():  # macOS
        answer = subprocess.run(["ps", "-o", "lstart=", "-p", str(pid)], capture_output=True, text=True, check=False)
        return answer.stdout.strip()
    try:
        stat = (proc / str(pid) / "stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    # Field 2, a name in brackets, may hold brackets too. The list begins with field 3; the start in ticks is field 22.
    return stat.rpartition(")")[2].split()[19]


def _phase_file(run: str) -> Path:
    return cache_directory() / "phases" / f"{bytes_digest(run.encode())[:24]}.json"


def _write(phase: Phase) -> None:
    path = _phase_file(phase.run)
    with contextlib.suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_suffix(".tmp")
        temporary.write_bytes(line(asdict(phase)))
        temporary.replace(path)
