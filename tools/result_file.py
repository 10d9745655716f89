"""Result files of `make proof` and `make bench`: one JSON object with everything needed to judge its numbers.

Keys of every file:

- ``what``: one sentence.
- ``command``: the command that writes this file again.
- ``date``: day it was written, UTC.
- ``machine``: processor, usable cores, memory, load average before and after the measurement.
- ``versions``: Python and the packages named by the script.
- ``commit``: of this repository, and whether tracked files differed from it.
- ``values``: the numbers. Docs quote these by path (see CONTRIBUTING.md).
"""

import importlib.metadata
import json
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOAD_AT_START = os.getloadavg()[0]
"""Processes that wanted a core in the minute before this module was imported."""


def write_result(path: Path | None = None, *, values: dict[str, Any], packages: Sequence[str] = (), words: str = "",
                 what: str = "", command: str = "", load_before: float = LOAD_AT_START) -> None:
    """Write one result file.

    Args:
        path: the file, below `proof/` or `benchmarks/results/`; by default `own_result`.
        values: numbers and texts, nested as the script likes; no nulls.
        packages: distributions whose versions belong next to the numbers.
        words: of the command, after the script's name.
        what: one sentence that says what was measured or counted; by default the first line of the script.
        command: what to type to get it again; by default the script with ``words``.
        load_before: `load_average()` before the work started.
    """
    path = path or own_result()
    result = {
        "what": what or str(sys.modules["__main__"].__doc__).splitlines()[0],
        "command": command or f"python -m {_script()} {words}".strip(),
        "date": datetime.now(UTC).date().isoformat(),
        "machine": machine(load_before),
        "versions": versions(packages),
        "commit": commit(),
        "values": values,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(result, indent=2, ensure_ascii=False, allow_nan=False) + "\n", encoding="utf-8")


def own_result() -> Path:
    """The file of the script that runs: `proof/NAME.json` or `benchmarks/results/NAME.json`."""
    folder, _, name = _script().partition(".")
    return ROOT / folder / ("results" if folder == "benchmarks" else "") / f"{name}.json"


def _script() -> str:
    specification = sys.modules["__main__"].__spec__
    assert specification is not None  # started by `python -m`
    return specification.name.removesuffix(".__main__")


def earlier(path: Path | None = None) -> dict[str, Any]:
    """``values`` that an earlier call wrote; none without the file. Another call may write meanwhile: ask again."""
    path = path or own_result()
    return dict(json.loads(path.read_text(encoding="utf-8"))["values"]) if path.is_file() else {}


def measured() -> dict[str, str]:
    """Day, processor and commit: for a part of ``values`` that may be measured again without the other parts."""
    return {"date": datetime.now(UTC).date().isoformat(), "processor": _processor(), "commit": commit()}


def load_average() -> float:
    """Processes that wanted a core over the last minute."""
    return os.getloadavg()[0]


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0))


def machine(load_before: float | None = None) -> dict[str, Any]:
    """What ran: processor model, usable cores, memory in GiB, load averages."""
    facts: dict[str, Any] = {
        "processor": _processor(),
        "cores": usable_cores(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "system": f"{platform.system()} {platform.machine()}",
        "load_after": round(load_average(), 2),
    }
    if load_before is not None:
        facts["load_before"] = round(load_before, 2)
    return facts


def versions(packages: Sequence[str]) -> dict[str, str]:
    """Versions of Python, this package and the named distributions."""
    return {"python": platform.python_version()} | {
        name: importlib.metadata.version(name) for name in ("workings", *packages)}


def commit() -> str:
    """Commit of the working tree, with ``+changes`` where tracked files differ from it."""
    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True, text=True).stdout.strip()

    return git("rev-parse", "HEAD") + ("+changes" if git("status", "--porcelain", "--untracked-files=no") else "")


def _processor() -> str:
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()
