"""An improvement that is killed five times, and continued by the same command, ends as one that was left alone.

Two rounds of the quickstart's model. One process after the other is killed with SIGKILL: while the start is trained,
while the first samples are drawn, while a round is trained, while the second samples are drawn, while the last model
is evaluated; and one is asked to stop by SIGTERM while the last round is trained. Compared are the samples with their
scores and seeds, what was kept, what each round was trained on, every log of losses, every answer and every tensor of
the last checkpoints.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

from proof.improve_quickstart import command
from tools.result_file import write_result

RESULT = Path(__file__).with_suffix(".json")
WORDS = ["training.steps=300", "checkpoint.every_steps=50", "evaluation.batch_size=32", "--rounds", "2",
         "--samples", "8", "--all-rounds"]
COMPARED = ("samples/*/predictions.jsonl", "samples/*/kept.jsonl", "traces/*.jsonl",
            "runs/round_[0-9]/eval/*/predictions.jsonl", "runs/round_[0-9]/data/rows.jsonl",
            "runs/round_[0-9]/checkpoints/*/*.safetensors")
OF_A_RUN = ("drawn_from", "source")
ASKED_TO_STOP = "the last round is trained (SIGTERM)"
MOMENTS = 0.002
"""Seconds between two looks."""


def moments(out: Path) -> dict[str, Callable[[], bool]]:
    """When each process is killed, by name."""
    def has_lines(path: Path) -> bool:
        return path.is_file() and path.stat().st_size > 0

    return {
        "the start is trained": lambda: any(out.glob("runs/round_0.partial/checkpoints/step_*/COMMIT.json")),
        "the first samples are drawn": lambda: has_lines(out / "samples/for_round_1.partial/predictions.jsonl"),
        "the first round is trained": lambda: any(out.glob("runs/round_1.partial/checkpoints/step_*/COMMIT.json")),
        "the second samples are drawn": lambda: has_lines(out / "samples/for_round_2.partial/predictions.jsonl"),
        ASKED_TO_STOP: lambda: any(out.glob("runs/round_2.partial/checkpoints/step_*/COMMIT.json")),
        "the last round is evaluated": lambda: has_lines(out / "runs/round_2/eval/items.partial/predictions.jsonl"),
    }


def start(out: Path) -> "subprocess.Popen[str]":
    """The command in its own process; the data for all are made once, next to the folders."""
    return subprocess.Popen([*_command(out.parent / "data"), *WORDS, "--out", str(out)], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True, env=os.environ | {"JAX_PLATFORMS": "cpu"})


_command = cache(command)


def stopped(out: Path, due: Callable[[], bool], by: signal.Signals) -> bool:
    """Start the command and stop it at a moment. Returns whether the moment came and it ended as it should."""
    with start(out) as process:
        while process.poll() is None:
            if due():
                process.send_signal(by)
                # Asked to stop, a verb says so and exits as after Ctrl-C.
                return process.wait() == (-by if by == signal.SIGKILL else 130)
            time.sleep(MOMENTS)
    return False


def finished(out: Path) -> dict[str, Any]:
    """Run the command to its end and read its answer."""
    with start(out) as process:
        told, _ = process.communicate()
    if process.returncode != 0:
        raise RuntimeError(f"exit {process.returncode}")
    found: dict[str, Any] = json.loads(told.splitlines()[-1])
    return found


def contents(out: Path) -> dict[str, bytes]:
    """What is compared, by path; of the logs, the losses; samples without the digest of the run that drew them.

    Two runs that learned the same have different digests: a record says when it was made.
    """
    found = {path.relative_to(out).as_posix(): path.read_bytes()
             for pattern in COMPARED for path in sorted(out.glob(pattern))}
    for name in [name for name in found if name.endswith("kept.jsonl") or name.startswith("traces/")]:
        rows = [json.loads(row) for row in found[name].splitlines()]
        found[name] = json.dumps([{key: value for key, value in row.items() if key not in OF_A_RUN}
                                  for row in rows]).encode()
    for path in sorted(out.glob("runs/round_[0-9]/train/metrics.jsonl")):
        rows = [json.loads(row) for row in path.read_text().splitlines()]
        found[path.relative_to(out).as_posix()] = json.dumps(
            [[row["step"], row["loss"], row["grad_norm"], row["batch_digest"]] for row in rows]).encode()
    return found


def main() -> int:
    """Run both, write the result file, print one line; 1 if anything was not as it must be."""
    with tempfile.TemporaryDirectory() as name:
        straight, again = Path(name, "straight"), Path(name, "again")
        told = finished(straight)
        killed_at = []
        for moment, due in moments(again).items():
            if stopped(again, due, signal.SIGTERM if moment == ASKED_TO_STOP else signal.SIGKILL):
                killed_at.append(moment)
            print(f"{moment}: {'stopped' if moment in killed_at else 'the moment did not come'}", file=sys.stderr)
        resumed = finished(again)
        before, after = contents(straight), contents(again)
        problems = [f"{path} differs" for path in sorted(before.keys() | after.keys())
                    if before.get(path) != after.get(path)]
        if resumed["accuracies"] != told["accuracies"]:
            problems.append(f"accuracies {told['accuracies']}, after kills {resumed['accuracies']}")
        if len(killed_at) != len(moments(again)):
            problems.append("a process ended before it could be killed")
        verified = subprocess.run([sys.executable, "-m", "workings", "verify", str(again)], capture_output=True,
                                  text=True, check=False)
        if verified.returncode != 0:
            problems.append("the continued one does not verify")
    write_result(RESULT, what="An improvement of two rounds, killed and continued by the same command.",
                 command="python -m proof.improve_resume", packages=["jax", "jaxlib", "numpy"],
                 values={"kills": len(killed_at) - (ASKED_TO_STOP in killed_at), "stopped_while": killed_at,
                         "rounds": 2, "accuracies": resumed["accuracies"], "files_compared": len(before),
                         "problems": len(problems), "first_problems": problems[:10]})
    print(f"{len(killed_at)} kills, {len(before)} files compared, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
