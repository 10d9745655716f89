"""A load average that does not count what the benchmark itself has just done."""

import os
import time
from pathlib import Path

LIMIT = 0.5
"""Cores of other work above which nothing is measured."""
PATIENCE = 300
"""Seconds to wait for other work to end."""


class Load:
    """Asks for the load of others before each turn.

    The load average after a turn contains the turn itself. So the idle time of the cores is measured, over half a
    second without a turn.
    """

    def __init__(self, *, allow: bool) -> None:
        self.allow = allow
        self.passed_over = False

    def check(self) -> float:
        """Cores that others use now. Above the limit: notes it where load is allowed, else waits for a pause.

        Exits with 3 if none comes.
        """
        begun = time.monotonic()
        while (busy := min(_busy_cores(0.5) for _ in range(3))) > LIMIT:
            if self.allow:
                self.passed_over = True
                break
            if time.monotonic() - begun > PATIENCE:
                print(f"not measured: other work uses {busy:.2f} cores, and {LIMIT} is the limit "
                      "(--allow-load marks the result)")
                raise SystemExit(3)
        return busy


def _busy_cores(seconds: float) -> float:
    """Cores that were not idle over this time, while this process slept."""
    before = _idle_seconds()
    started = time.perf_counter()
    time.sleep(seconds)
    return max(0.0, (os.cpu_count() or 1) - (_idle_seconds() - before) / (time.perf_counter() - started))


def _idle_seconds() -> float:
    """Seconds that all cores together were idle or waited for a disk since the start."""
    with Path("/proc/stat").open(encoding="ascii") as file:
        fields = file.readline().split()
    return (int(fields[4]) + int(fields[5])) / os.sysconf("SC_CLK_TCK")
