"""Seconds until `workings --help` answers, next to an empty Python; of every verb's help, and until a first step.

Twenty starts of each of the first two, alternating, in fresh processes with warm files; the median counts. Then three
starts of every verb's help, the imports that cost most under it, and one `train` of the smoke recipe for each engine
with the seconds at which it had prepared and compiled, taken its first step, and ended; for the JAX engine again, with
the programs that the first one kept. Exits with 3 without a result when others use more than half a core
(``--allow-load`` marks the result), with 1 when the first median is above the limit.
"""

import argparse
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tools.other_load import Load
from tools.result_file import write_result

LIMIT_SECONDS = 0.3
STARTS = 20


def seconds(*arguments: str) -> float:
    """Wall time of one fresh Python with these arguments."""
    started = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, capture_output=True)
    return time.perf_counter() - started


def verbs() -> list[str]:
    """Every verb, as `workings --help` lists them."""
    shown = subprocess.run([sys.executable, "-m", "workings", "--help"], check=True, capture_output=True,
                           text=True).stdout
    return re.findall(r"^  ([a-z]+)  ", shown, re.MULTILINE)


def costly_imports(verb: str, most: int = 3) -> dict[str, float]:
    """Milliseconds of the modules that took most, themselves alone, until the help of a verb was there."""
    said = subprocess.run([sys.executable, "-X", "importtime", "-m", "workings", verb, "--help"], check=True,
                          capture_output=True, text=True).stderr
    found = re.findall(r"import time:\s+(\d+) \|\s+\d+ \|\s+(\S+)", said)
    return {name: round(int(own) / 1000, 1) for own, name in sorted(found, key=lambda pair: -int(pair[0]))[:most]}


def first_step(engine: str, out: Path) -> dict[str, float]:
    """Seconds from the start of `train` to its landmarks, read from what it says as it says it."""
    started, found = time.perf_counter(), {}
    marks = {"writing": "prepared_and_compiled", "step 1/": "first_step"}
    with subprocess.Popen([sys.executable, "-m", "workings", "train", "smoke-tiny", f"engine={engine}", "device=cpu",
                           "--out", str(out)], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
                          env=os.environ | {"WORKINGS_CACHE": str(out.with_name("cache"))}) as process:
        assert process.stderr is not None
        for line in process.stderr:
            for start, name in marks.items():
                if line.startswith(start) and name not in found:
                    found[name] = round(time.perf_counter() - started, 2)
    if process.returncode:
        raise SystemExit(f"train smoke-tiny engine={engine}: exit code {process.returncode}")
    return found | {"evaluated_and_sealed": round(time.perf_counter() - started, 2)}


def main(arguments: list[str]) -> int:
    """Measure, write the result file, print what it holds."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--allow-load", action="store_true")
    asked = parser.parse_args(arguments)
    load = Load(allow=asked.allow_load)
    load.check()
    commands = {"help": ("-m", "workings", "--help"), "empty_python": ("-c", "pass")}
    for given in commands.values():
        seconds(*given)  # files and byte code get warm
    times: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(STARTS):
        for name, given in commands.items():
            times[name].append(seconds(*given))
    values: dict[str, Any] = {
        name: {"median_seconds": round(statistics.median(found), 4), "min_seconds": round(min(found), 4),
               "max_seconds": round(max(found), 4)} for name, found in times.items()}
    median = statistics.median(times["help"])
    values["verbs"] = {}
    for verb in verbs():
        help_seconds = round(statistics.median(seconds("-m", "workings", verb, "--help") for _ in range(3)), 3)
        values["verbs"][verb] = {"help_seconds": help_seconds, "costly_imports_ms": costly_imports(verb)}
        print(verb, values["verbs"][verb], flush=True)
    with tempfile.TemporaryDirectory() as name:
        values["train"] = {row: first_step(engine, Path(name) / row.replace(", ", "-").replace(" ", "-"))
                           for row, engine in (("jax", "jax"), ("jax, programs kept", "jax"), ("torch", "torch"))}
    print(values["train"])
    write_result(packages=["typer", "click", "jax", "torch"],
                 values={"starts": STARTS, "limit_seconds": LIMIT_SECONDS,
                         "quotable": not load.passed_over, **values})
    print(f"workings --help: median {median:.3f} s of {STARTS} starts (limit {LIMIT_SECONDS} s)")
    return 0 if median <= LIMIT_SECONDS else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
