"""Processor time of a child process: what decides about a limit must not depend on what else the machine does.

Source: proc(5), `/proc/PID/stat`. Where there is no such file (macOS, Windows), limits count seconds of the clock.
"""

import os
import time
from pathlib import Path

LOOKS, PAUSE_SECONDS = 10, 0.02
"""A process counts as waiting if it is found waiting each time."""


def processor_seconds(process_id: int) -> float | None:
    """Processor seconds of a process and all its threads so far; None where the system does not say."""
    fields = _fields(Path(f"/proc/{process_id}/stat")) if hasattr(os, "sysconf") else []
    # The 14th and 15th field: ticks in user and in kernel mode.
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK") if fields else None


def is_computing(process_id: int) -> bool:
    """Whether a thread of the process runs, or waits for a processor and nothing else."""
    for _ in range(LOOKS):
        if any(_fields(thread / "stat")[:1] == ["R"] for thread in Path(f"/proc/{process_id}/task").glob("*")):
            return True
        time.sleep(PAUSE_SECONDS)
    return False


def _fields(path: Path) -> list[str]:
    """Fields behind the command's name, which may hold spaces; none of a process that has ended."""
    try:
        return path.read_text(encoding="ascii", errors="replace").rpartition(")")[2].split()
    except OSError:
        return []
