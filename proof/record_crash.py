"""A run that is killed at any moment loses no finished step, and nothing half-done ever looks complete.

A child process writes a run (six steps, three checkpoints, sealing) and kills itself with SIGKILL right before one of
the calls that change the disk; at an append, half of the line goes out first. What it leaves is scored, the run is
resumed (in every second trial the resuming process is killed, too), and the end must be that of a run that was never
killed: same metrics in every field, same weights, sealed, verified. The kill points are spread evenly over all calls.
"""

import argparse
import platform
import sys
import tempfile
from pathlib import Path

from tests.record import crash
from tools.result_file import write_result


def main() -> int:
    """Run the trials, write the result file, print one line; 1 if anything was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=200, help="number of kill points")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        names = crash.run_child(Path(folder, "whole"), 0).stderr.splitlines()
        problems = [f"without a kill: {problem}" for problem in crash.problems_at_end(Path(folder, "whole"))]
        calls = len(names)
        points = [1 + round(index * (calls - 1) / (asked.n - 1)) for index in range(asked.n)]
        kills = 0
        for index, point in enumerate(points):
            # The second kill strikes anywhere in what is left; 37 has no common factor with anything here.
            second = (1 + index * 37 % max(1, calls - point),) if index % 2 else ()
            problems += crash.trial(Path(folder, f"trial-{index}"), point, *second)
            kills += 1 + len(second)
            if sys.stderr.isatty():
                print(f"\r{index + 1}/{asked.n}, {len(problems)} problems", end="", file=sys.stderr)
    counted: dict[str, int] = {}
    for point in points:
        name = names[point - 1].rpartition(":")[2]
        counted[name] = counted.get(name, 0) + 1
    write_result(packages=["pydantic", "rfc8785"], words=f"--n {asked.n}",
                 values={"kill_points": len(set(points)), "calls_in_all": calls, "kills": kills,
                         "by_call": dict(sorted(counted.items())), "problems": len(problems),
                         "first_problems": problems[:10], "file_system": _file_system(), "kernel": platform.release()})
    print(f"{len(set(points))} kill points of {calls} calls, {kills} kills, {len(problems)} problems")
    return 1 if problems else 0


def _file_system() -> str:
    """Kind of the file system that temporary folders are on."""
    place = Path(tempfile.gettempdir()).resolve()
    best = ("", "unknown")
    for line in Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines():
        _, point, kind, *_ = line.split()
        if place.is_relative_to(point) and len(point) >= len(best[0]):
            best = (point, kind)
    return best[1]


if __name__ == "__main__":
    sys.exit(main())
