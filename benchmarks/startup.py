"""Seconds until `workings --help` answers, beside an empty Python.

Twenty starts of each, alternating, in fresh processes with warm files; the median counts. Exits with 3 without a
result when other work keeps the machine busy (load average above half of its cores), with 1 when the median is
above the limit.
"""

import statistics
import subprocess
import sys
import time
from pathlib import Path

from tools.result_file import load_average, usable_cores, write_result

RESULT = Path(__file__).parent / "results" / "startup.json"
LIMIT_SECONDS = 0.3
STARTS = 20


def seconds(*arguments: str) -> float:
    """Wall time of one fresh Python with these arguments."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - started


def main() -> int:
    """Measure, write the result file, print one line."""
    load = load_average()
    if load > usable_cores() / 2:
        print(f"not measured: load average {load:.1f} on {usable_cores()} cores")
        return 3
    commands = {"help": ("-m", "workings", "--help"), "empty_python": ("-c", "pass")}
    for arguments in commands.values():
        seconds(*arguments)  # files and byte code get warm
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(STARTS):
        for name, arguments in commands.items():
            times[name].append(seconds(*arguments))
    values = {name: {"median_seconds": round(statistics.median(found), 4), "min_seconds": round(min(found), 4),
                     "max_seconds": round(max(found), 4)} for name, found in times.items()}
    median = statistics.median(times["help"])
    write_result(RESULT, what="Seconds until `workings --help` answers, beside an empty Python.",
                 command="python -m benchmarks.startup", packages=["typer", "click"], load_before=load,
                 values={"starts": STARTS, "limit_seconds": LIMIT_SECONDS, **values})
    print(f"workings --help: median {median:.3f} s of {STARTS} starts (limit {LIMIT_SECONDS} s)")
    return 0 if median <= LIMIT_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main())
