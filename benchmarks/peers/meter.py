"""What every contender reports in any version of Python: all of it in files, so that a peer needs nothing of ours.

Standard library only: `trl_sft` runs in an environment without this project.
"""

import json
import os
import resource
import sys
import time
from pathlib import Path
from typing import Any

THREADS = min(2, len(os.sched_getaffinity(0)))


QUIET = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_VERBOSITY": "error", "TOKENIZERS_PARALLELISM": "false",
         "DISABLE_TELEMETRY": "1"}


def two_threads() -> None:
    """To be called before any framework is imported."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(THREADS)
    os.environ |= {"JAX_PLATFORMS": "cpu"} | QUIET


def prepare() -> bool:
    """The same where the settings of this process name the CPU or nothing; whether they do."""
    on_cpu = json.loads(sys.argv[2]).get("device", "cpu") == "cpu"
    if on_cpu:
        two_threads()
    os.environ |= QUIET
    return on_cpu


def read_rows(folder: Path, name: str) -> list[dict[str, Any]]:
    """The rows of a file, in its order: ``input_ids`` and ``completion_mask``."""
    return [json.loads(line) for line in (folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


class Meter:
    """Counts supervised tokens between the end of the warm-up and the end of the last step."""

    def __init__(self, process_started: float) -> None:
        self.process_started = process_started
        self.warm = self.ended = self.first = 0.0
        self.cpu_warm = self.cpu_ended = 0.0
        self.steps = self.tokens = self.real = self.positions = 0
        self.losses: list[float] = []
        self.more: dict[str, Any] = {}

    def first_step(self) -> None:
        """The first step is done."""
        self.first = time.time() - self.process_started

    def start(self) -> None:
        """The warm-up is done and nothing is in flight."""
        self.warm, self.cpu_warm = time.perf_counter(), time.process_time()

    def count(self, tokens: int, real: int, positions: int) -> None:
        """One measured step."""
        self.steps, self.tokens = self.steps + 1, self.tokens + tokens
        self.real, self.positions = self.real + real, self.positions + positions

    def stop(self) -> None:
        """The last step is done, its result read."""
        self.ended, self.cpu_ended = time.perf_counter(), time.process_time()

    def report(self, versions: dict[str, str]) -> None:
        """Print the result as the last line of standard output."""
        seconds = self.ended - self.warm
        print(json.dumps({
            "tokens_per_second": self.tokens / seconds, "seconds": seconds, "steps": self.steps,
            "supervised_tokens": self.tokens, "padding_share": 1 - self.real / self.positions,
            "tokens_per_cpu_second": self.tokens / (self.cpu_ended - self.cpu_warm), "threads": THREADS,
            "seconds_to_first_step": self.first,
            "first_loss": self.losses[0], "last_loss": self.losses[-1], "versions": versions,
            **self.more,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024}))
        sys.stdout.flush()
