"""``python -m workings.ui.job_child FOLDER``: runs one command and records how it ended.

The page starts this in its own session, so a command outlives the page. In the folder: `job.json` (what to run),
`stdout.txt`, `stderr.txt`, `pid.json` while it runs, `exit.json` at the end. A request to stop arrives as SIGINT and is
passed on: `workings train` then saves a checkpoint and seals what it has.
"""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

from workings.record import atomic
from workings.record.phase import process_start
from workings.record.values import now


def main(folder: Path) -> int:
    """Run the command of a folder; its exit code."""
    job = json.loads((folder / "job.json").read_bytes())
    # A list, because the handler exists before the child to which it passes signals.
    children: list[subprocess.Popen[bytes]] = []

    def pass_on(number: int, frame: object) -> None:
        for child in children:
            child.send_signal(number)

    # Before the child starts: a signal handled here has its default action there, even if we inherited "ignore".
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, pass_on)
    with (folder / "stdout.txt").open("wb") as out, (folder / "stderr.txt").open("wb") as error:
        child = subprocess.Popen(job["argv"], stdin=subprocess.DEVNULL, stdout=out, stderr=error, cwd=job["cwd"])
        children.append(child)
        # Only now can the page stop this command, and the child exists: no signal is lost.
        atomic.write_json(folder / "pid.json", {"pid": os.getpid(), "started": process_start(os.getpid())})
        code = child.wait()
    # Written atomically: to the page this file means the end of the command.
    atomic.write_json(folder / "exit.json", {"code": code, "finished_at": now()})
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
