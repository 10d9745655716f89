"""Two processes of one run meet faults at known moments: neither hangs, neither is silent, and the run resumes.

    python -m proof.faults [--engines jax torch] [--phases start step checkpoint sampling evaluation] [--timeout 60]

While the run makes steps, writes a checkpoint, samples completions for rewards or answers its evaluation, one of its
two processes is killed (SIGKILL), stopped (SIGSTOP) or asked to end (SIGTERM). Every process that is left has to end
within the timeout and a margin, with exit code 130 and one sentence. The same command then finishes the run, whose
metrics, weights and answers have to be those of an undisturbed run. At the start a process is missing or has another
recipe, seed or traces, the port is taken, or the disk is full: each has to be refused in a sentence. A cut network is
tried by `python -m proof.slurm`. Writes `proof/faults.json`, in which rows of an earlier call stay that are not tried
again; exits with 1 where anything is wrong.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests import children
from tests.distributed import killing
from tests.distributed.test_kills import SMALL
from tests.distributed.tiny_recipe import RECIPE
from tests.runs.runs_helpers import write_recipe
from tools.result_file import earlier, write_result
from workings.errors import PEER_GONE
from workings.record.layout import RECIPE_EVALUATION, SEAL, partial_path

PHASES = ("start", "step", "checkpoint", "sampling", "evaluation")
REWARDS = ("algorithm={name: grpo, group: 2, max_new_tokens: 24}", "rewards=[{scorer: 'parity.py:parity'}]",
           "data.packing=none", "batch.micro_batch=4", "batch.accumulation=1")
PARITY = """
def parity(prompts, completions, **columns):
    return [float(len(text) % 2) for text in completions]
"""
"""A reward that differs within a group of a random model, which no answer of it would."""
MARGIN = 30.0
"""Seconds beyond the timeout in which a process that waits for another one has to be gone."""
SIGNALS = {"killed": signal.SIGKILL, "stopped": signal.SIGSTOP, "asked to end": signal.SIGTERM}
MET = (("killed", 0), ("killed", 1), ("stopped", 0), ("stopped", 1), ("asked to end", 1))
"""What meets which process, in each phase."""


def reached(folder: Path, phase: str) -> Callable[[], bool]:
    """Whether the run `folder/run` is within a phase."""
    run = folder / "run"
    return {
        "step": lambda: killing.steps(run) >= 3,
        "checkpoint": lambda: any(partial_path(run).glob("checkpoints/.step_*.tmp")),
        "sampling": lambda: killing.steps(run) >= 2,  # nearly all of an update's time
        "evaluation": lambda: any(folder.glob("run.eval-*.partial")),
    }[phase]


def runs(process: Any) -> bool:
    """Whether a process has not ended."""
    return process.poll() is None


def until(happened: Callable[[], bool], pair: list[Any]) -> None:
    """Wait for a moment, or for the end of a process."""
    while all(runs(one) for one in pair) and not happened():
        time.sleep(0.001)


def ends(processes: list[Any], seconds: float) -> tuple[list[str], float]:
    """Wait for processes; what is wrong with those that are still there, and the seconds it took."""
    begun = time.monotonic()
    while any(runs(one) for one in processes) and time.monotonic() - begun < seconds:
        time.sleep(0.05)
    return ([f"still running after {seconds:.0f} s" for one in processes if runs(one)],
            time.monotonic() - begun)


class Faults:
    """All trials with one engine, each in a new folder."""

    def __init__(self, engine: str, folder: Path, timeout: float) -> None:
        self.engine, self.folder, self.timeout = engine, folder, timeout
        self.whole: dict[bool, dict[str, Any]] = {}
        self.rows: list[dict[str, Any]] = []

    def pair(self, folder: Path, *overrides: str, own: tuple[str, ...] = ()) -> list[Any]:
        """Two processes of a run; `own` are overrides of the second alone."""
        port = killing.free_port()
        return [self.one(folder, index, port, *overrides, *(own if index else ())) for index in range(2)]

    def one(self, folder: Path, index: int, port: int, *overrides: str) -> Any:
        """One process of a run of two."""
        return children.start(killing.words("run", f"engine={self.engine}", *SMALL, *overrides), cwd=folder,
                              environment=dict(os.environ) | killing.launched(
                                  self.engine, index, port, self.timeout))

    def folder_of(self, name: str) -> Path:
        """A new folder with the recipe and its data."""
        folder = self.folder / name
        folder.mkdir()
        write_recipe(folder, RECIPE)
        (folder / "parity.py").write_text(PARITY, encoding="utf-8")
        return folder

    def finish(self, folder: Path, overrides: tuple[str, ...]) -> list[str]:
        """Start the run again and let it end; what is wrong with it."""
        said = [(one, one.communicate()[1]) for one in self.pair(folder, *overrides)]
        problems = [f"resumed with exit code {one.returncode}: {text[-600:]}" for one, text in said if one.returncode]
        rewarded = bool(overrides)
        if problems:
            return problems
        if rewarded not in self.whole:
            self.whole[rewarded] = killing.contents(folder / "run")
        return killing.problems_at_end(folder / "run", self.whole[rewarded])

    def during(self, phase: str, fault: str, index: int) -> None:
        """One trial in which a signal meets process ``index``."""
        overrides = REWARDS if phase == "sampling" else ()
        folder = self.folder_of(f"{phase}-{fault}-{index}".replace(" ", "-"))
        pair = self.pair(folder, *overrides)
        until(reached(folder, phase), pair)
        met = runs(pair[index]) and (phase == "evaluation" or not (folder / "run" / SEAL).exists())
        pair[index].send_signal(SIGNALS[fault])
        ended = fault == "asked to end"
        left = pair if ended else [pair[1 - index]]
        problems, seconds = ends(left, self.timeout + MARGIN)
        for one in pair:
            if runs(one):
                killing.send(one.pid, signal.SIGKILL)
        texts = [(one, one.communicate()[1]) for one in left]
        whole = ended and (folder / "run" / RECIPE_EVALUATION).is_dir()  # the evaluation ended before it was stopped
        if met and not whole:
            problems += [f"exit code {one.returncode}: {text[-600:]}" for one, text in texts if one.returncode != 130]
            problems += [f"{text.count(PEER_GONE)} sentences: {text[-600:]}" for _, text in texts
                         if not ended and text.count(PEER_GONE) != 1]
        self.note(phase, f"process {index} {fault}", problems + self.finish(folder, overrides), seconds, met)

    def at_start(self) -> None:
        """Trials of processes that may not train together."""
        alone = self.one(self.folder_of("missing"), 0, killing.free_port())
        self.refused("a process never started", [alone], "did not meet")
        with killing.listening() as port:
            self.refused("the port is taken", [self.one(self.folder_of("taken"), 0, port)], "port")
        differences = {"another recipe": (("training.learning_rate=2e-3",), "training.learning_rate"),
                       "another seed": (("seed=18",), "seed"),
                       "other traces": (("data.traces=held_out.jsonl",), "data.traces")}
        for name, (own, said) in differences.items():
            self.refused(name, self.pair(self.folder_of(name.replace(" ", "-")), own=own), said)
        with small_disk(self.folder_of("full-disk")) as folder:
            self.refused("the disk is full", self.pair(folder), "the disk is full", codes=(1, 2, 130))

    def refused(self, fault: str, processes: list[Any], said: str, codes: tuple[int, ...] = (2,)) -> None:
        """Wait for processes that have to refuse to train, and look for words in what they say."""
        problems, seconds = ends(processes, self.timeout + MARGIN)
        for one in processes:
            if runs(one):
                killing.send(one.pid, signal.SIGKILL)
        texts = [one.communicate()[1] for one in processes]
        problems += [f"exit code {one.returncode}: {text[-600:]}" for one, text in zip(processes, texts, strict=True)
                     if one.returncode not in codes]
        problems += [f"`{said}` was not said: {texts[0][-600:]}"] * (said not in texts[0])
        problems += [f"traceback: {text[-600:]}" for text in texts if "Traceback" in text]
        self.note("start", fault, problems, seconds, met=True)

    def note(self, phase: str, fault: str, problems: list[str], seconds: float, met: bool) -> None:
        """Keep and print the row of a trial."""
        self.rows.append({"engine": self.engine, "phase": phase, "fault": fault, "met": met,
                          "seconds": round(seconds, 1), "problems": problems})
        print(self.rows[-1], file=sys.stderr, flush=True)


@contextmanager
def small_disk(folder: Path) -> Iterator[Path]:
    """A file system with less room than a run needs, with what is in ``folder``. Needs root."""
    room = folder / "disk"
    room.mkdir()
    subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", str(room)], check=True)
    try:
        write_recipe(room, RECIPE)
        yield room
    finally:
        subprocess.run(["umount", "-l", str(room)], check=True)


def main() -> int:
    """Run the trials, write the result file; 1 if anything was not as it must be."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--engines", nargs="+", default=["jax", "torch"], choices=["jax", "torch"])
    parser.add_argument("--phases", nargs="+", default=list(PHASES), choices=PHASES)
    parser.add_argument("--timeout", type=float, default=60.0, help="seconds that a process waits for the other one")
    asked = parser.parse_args()
    rows = [row for row in earlier().get("rows", [])
            if row["engine"] not in asked.engines or row["phase"] not in asked.phases]
    with tempfile.TemporaryDirectory() as name:
        for engine in asked.engines:
            trials = Faults(engine, Path(name) / engine, asked.timeout)
            trials.folder.mkdir()
            for rewarded in (False, True):
                trials.finish(trials.folder_of(f"whole-{rewarded}"), REWARDS if rewarded else ())
            for phase in asked.phases:
                if phase == "start":
                    trials.at_start()
                else:
                    for fault, index in MET:
                        trials.during(phase, fault, index)
            rows += trials.rows
    wrong = [row for row in rows if row["problems"]]
    write_result(packages=["jax", "torch"],
                 values={"trials": len(rows), "met": sum(row["met"] for row in rows), "wrong": len(wrong),
                         "longest_seconds": max(row["seconds"] for row in rows),
                         "rows": rows})
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
