"""What every contender reports in any version of Python: updates as lines of numbers, and their reward.

Standard library only: `trl_grpo` and `trl_dpo` run in an environment without this project.
"""

import json
import resource
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.meter import THREADS


def read_prompts(folder: Path) -> list[dict[str, Any]]:
    """The prompts in their order: ``text`` (chat turns included) and ``tokens``."""
    return [json.loads(line) for line in (folder / "prompts.jsonl").read_text(encoding="utf-8").splitlines()]


class Meter:
    """One record an update: seconds in all and of drawing, tokens drawn, mean reward."""

    def __init__(self, process_started: float, warm: int) -> None:
        self.process_started, self.warm = process_started, warm
        self.updates: list[dict[str, float]] = []
        self.first = self.cpu_warm = 0.0
        self._last = time.perf_counter()
        self._open = {"drawing": 0.0, "rewarding": 0.0, "tokens": 0, "rows": 0, "reward": 0.0}

    def drew(self, seconds: float, tokens: int) -> None:
        """Completions were drawn."""
        self._open["drawing"] += seconds
        self._open["tokens"] += tokens

    def rewarded(self, rewards: list[float], seconds: float) -> None:
        """They were rewarded."""
        self._open["rewarding"] += seconds
        self._open["reward"] += sum(rewards)
        self._open["rows"] += len(rewards)

    def end_update(self) -> None:
        """The update is done, nothing is in flight."""
        now, record = time.perf_counter(), dict(self._open)
        record["reward"] /= record["rows"] or 1
        self.updates.append({"seconds": now - self._last} | record)
        self._open = dict.fromkeys(self._open, 0)
        if len(self.updates) == 1:
            self.first = time.time() - self.process_started
        if len(self.updates) == self.warm:
            self.cpu_warm = time.process_time()
        self._last = time.perf_counter()

    def report(self, versions: dict[str, str], **more: Any) -> None:
        """Print the result as the last line of standard output."""
        measured = len(self.updates) - self.warm
        print(json.dumps({
            "updates": self.updates, "warm": self.warm, "threads": THREADS, "versions": versions,
            "cpu_seconds_an_update": (time.process_time() - self.cpu_warm) / measured,
            "seconds_to_first_update": self.first,
            "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024} | more))
        sys.stdout.flush()
