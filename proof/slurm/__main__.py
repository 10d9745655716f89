"""What `workings launch --for slurm` writes runs unedited on a Slurm cluster of two nodes, through every fault tried.

The cluster is of this machine alone (`proof.slurm.cluster`): Debian's Slurm, two nodes in namespaces. Each case submits
the written `job.sbatch` by `sbatch` and waits until Slurm says COMPLETED. Nothing else starts the run again; only the
two minutes that Slurm lets a requeued job wait are cut to a quarter of a minute.

    sudo .venv/bin/python -m proof.slurm [--only CASE …] [--engine jax|torch]
"""

import argparse
import os
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from proof.slurm.cluster import Cluster, command, install
from tools.result_file import ROOT, earlier, write_result
from workings.evidence.verify import verify
from workings.record import jsonl
from workings.record.layout import METRICS, PREDICTIONS, RECIPE_EVALUATION, SEAL, partial_path, partial_unit_path
from workings.record.reader import RunRecord

MANY_STEPS, FEW_STEPS = 120, 6
STEPS = {"finish": FEW_STEPS, "requeue in evaluation": FEW_STEPS, "time limit": 25 * MANY_STEPS}
"""Steps of a case, if they are not `MANY_STEPS`. An idle machine takes those within the minute of the time limit."""
ABORTS = ("Aborted", "core dumped", "Segmentation fault", "Fatal Python error", "SIGABRT", "/workings/cli/main.py")
"""Words in a log of a process that did not end in order. The last one is in our tracebacks, not in torchrun's own."""
LIMIT_SECONDS = 1500
SETTLING_SECONDS = 15
"""From a requeue to the next start."""


class Job:
    """One submitted run."""

    def __init__(self, folder: Path, case: str, engine: str) -> None:
        self.name = f"{case.replace(' ', '-')}-{engine}"
        self.home = folder / self.name
        self.run = self.home / "runs" / self.name
        steps = STEPS.get(case, MANY_STEPS)
        command("workings", "launch", "smoke-tiny", f"engine={engine}", "device=cpu", "model.shape.layers=1",
                f"training.steps={steps}", "checkpoint.every_steps=10", "evaluation.every_steps=1000",
                "evaluation.base=false",
                f"evaluation.batch_size={1 if case == 'requeue in evaluation' else 64}",
                "--for", "slurm", "--on", "cpu", "--hosts", "2", "--name", self.name, "--home", self.home,
                "--write", self.home)
        self.steps = steps
        self.number = ""

    def submit(self, *options: str) -> None:
        """`sbatch job.sbatch`; options replace what the file says, as those of a person would."""
        os.chdir(self.home)
        self.number = command("sbatch", "--parsable", *options, "job.sbatch").strip()

    def lines(self) -> int:
        """Steps in the log of metrics so far."""
        partial = partial_path(self.run)
        metrics = (partial if partial.is_dir() else self.run) / METRICS
        return metrics.read_bytes().count(b"\n") if metrics.exists() else 0

    def wait(self, what: str, there: Callable[[], bool]) -> None:
        """Wait for something, and let Slurm start the job soon where it is in the queue."""
        began = time.monotonic()
        while not there():
            facts = Cluster.job(self.number)
            if facts["JobState"] == "PENDING" and facts.get("Reason") == "BeginTime":
                # Started at once, it was killed by the last signals of the attempt before, which name the same step.
                time.sleep(SETTLING_SECONDS)
                command("scontrol", "update", f"JobId={self.number}", "StartTime=now")
            ended = facts["JobState"] in ("COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL")
            if (ended and not there()) or time.monotonic() - began > LIMIT_SECONDS:
                raise RuntimeError(f"{self.name}: waited for {what}; Slurm says {facts['JobState']}")
            time.sleep(0.5)

    def go_through(self, case: Callable[["Job"], None]) -> dict[str, Any]:
        """Let it happen, and wait until Slurm says COMPLETED; what is there then, and what should not be."""
        try:
            case(self)
            self.wait("COMPLETED", lambda: Cluster.job(self.number)["JobState"] == "COMPLETED")
            found = self._found()
        except RuntimeError as error:
            found = {"problems": [str(error)]}
        facts = Cluster.job(self.number)
        logs = "".join(path.read_text(errors="replace") for path in self.home.glob("*.log"))
        found["slurm"] = {key: facts[key] for key in ("JobState", "Restarts", "ExitCode")}
        found["problems"] += [f"the log has {word!r}" for word in ABORTS if word in logs]
        found["lines_of_log"] = logs.count("\n")
        return found

    def _found(self) -> dict[str, Any]:
        run, checks = RunRecord.open(self.run), verify(self.run)
        resumed = [event["from_step"] for event in run.events() if event["kind"] == "resumed"]
        steps = [line["step"] for line in jsonl.read(self.run / METRICS)[0] if "loss" in line]
        problems = [f"the run is {run.status}"] if run.status != "complete" else []
        problems += [f"verify: {each.id}" for each in checks.checks if each.verdict == "failed"]
        problems += [f"steps {steps}"] if steps != list(range(1, self.steps + 1)) else []
        problems += [] if (self.run / RECIPE_EVALUATION / SEAL).exists() else ["no evaluation"]
        return {"processes": run.manifest.device.processes, "resumed_after_step": resumed, "problems": problems,
                "checks_passed": sum(each.verdict == "passed" for each in checks.checks)}


def finish(job: Job) -> None:
    """Nothing happens to it."""
    job.submit()


def sigterm(job: Job) -> None:
    """SIGTERM to its processes: it saves, seals, and is put back into the queue by the script."""
    job.submit()
    job.wait("some steps", lambda: job.lines() >= 15)
    command("scancel", "--signal=TERM", job.number)
    job.wait("a restart", lambda: Cluster.job(job.number)["Restarts"] == "1")


def node_lost(job: Job) -> None:
    """The link of the second node is down until Slurm has noticed."""
    job.submit()
    job.wait("some steps", lambda: job.lines() >= 15)
    Cluster.link("n2", "down")
    try:
        job.wait("a restart", lambda: Cluster.job(job.number)["Restarts"] == "1")
    finally:
        Cluster.link("n2", "up")


def requeue_in_evaluation(job: Job) -> None:
    """`scontrol requeue` when the run is sealed and its items are being answered."""
    job.submit()

    def answering() -> bool:
        # Asked anew each time: the path depends on whether the run is sealed.
        return (partial_unit_path(job.run / RECIPE_EVALUATION) / PREDICTIONS).exists()

    job.wait("the final evaluation", answering)
    command("scontrol", "requeue", job.number)


def time_limit(job: Job) -> None:
    """Less time than it needs, with SIGTERM before the end of it; as often as it takes."""
    job.submit("--time=2", "--signal=TERM@60")
    job.wait("a restart", lambda: Cluster.job(job.number)["Restarts"] == "1")
    command("scontrol", "update", f"JobId={job.number}", "TimeLimit=60")


CASES = {"finish": finish, "sigterm": sigterm, "node lost": node_lost, "requeue in evaluation": requeue_in_evaluation,
         "time limit": time_limit}


def main() -> int:
    """Run the cases and write the result file; 1 where one has a problem, 3 where no cluster can be set up."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", action="append", choices=CASES, help="one case; may be given again")
    parser.add_argument("--engine", action="append", choices=("jax", "torch"))
    asked = parser.parse_args()
    if not sys.platform.startswith("linux") or os.geteuid() != 0 or not Path("/usr/bin/apt-get").exists():
        print("not measured: the cluster needs root on Debian", file=sys.stderr)
        return 3
    # So that the daemons end with this process.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    install()
    os.environ |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    values = earlier()
    name = tempfile.mkdtemp(prefix="workings-slurm-")  # kept where something fails
    with Cluster(Path(name)):
        values["slurm"] = command("sbatch", "--version").strip()
        for engine in asked.engine or ("jax", "torch"):
            for case in asked.only or CASES:
                began = time.monotonic()
                job = Job(Path(name) / "jobs", case, engine)
                found = job.go_through(CASES[case]) | {"seconds": round(time.monotonic() - began)}
                values.setdefault(engine, {})[case] = found
                print(f"{engine}, {case}: {found}", flush=True)
                os.chdir(ROOT)
                write_result(packages=["jax", "torch"], values=values)
    failed = any(found["problems"] for engine in ("jax", "torch") for found in values.get(engine, {}).values())
    print(f"logs and runs: {name}")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
