"""A task for SkyPilot, which rents machines: `sky jobs launch`, begun again where a machine is taken away.

Variables that it sets on every machine: SKYPILOT_NODE_IPS (a line each, the first is process 0's), SKYPILOT_NUM_NODES,
SKYPILOT_NODE_RANK.
"""

import re
import shlex
from dataclasses import dataclass
from typing import Any

from workings.errors import RequestError
from workings.launching.job import MAX_RESTARTS, PORT, LaunchJob, as_yaml, names

TASK_FILE = "task.yaml"
START_COMMAND = "sky jobs launch"
"""Command in front of the file's name."""
BUCKET_ADDRESS = re.compile(r"(gs|s3|r2|cos)://[a-z0-9][a-z0-9._/-]*")


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """This package's wheel, which is next to the task: a name on a registry may be someone else's tomorrow."""

    name: str
    sha256: str


def files(job: LaunchJob, storage: str, wheel: Wheel) -> dict[str, str]:
    """The task by its file's name; ``storage`` is a bucket that is mounted at `LaunchJob.home`/runs, or empty."""
    first = 'first=$(echo "$SKYPILOT_NODE_IPS" | sed -n 1p)'
    steps = [*job.train("skypilot"), first, *(_torchrun(job) if job.process_per_device else _one_a_host(job))]
    task: dict[str, Any] = {
        "name": job.name, "num_nodes": job.hosts, "resources": _resources(job),
        # Sent to every machine; the recipe and its data lie in it.
        "file_mounts": {job.remote_folder: "."},
        "setup": "\n".join([
            "set -eu", f"cd {shlex.quote(job.remote_folder)}",
            f"echo '{wheel.sha256}  {wheel.name}' | sha256sum --check",
            f"python -m pip install './{wheel.name}[{job.extra}]'"]) + "\n",
        "run": "\n".join(steps) + "\n"}
    head = job.head(f"{START_COMMAND} {TASK_FILE}")
    if storage:
        if not BUCKET_ADDRESS.fullmatch(storage):
            raise RequestError(f"--storage {storage}", "a bucket, such as gs://my-runs or s3://my-runs/a",
                               "--storage gs://my-runs")
        task["file_mounts"][f"{job.remote_folder}/runs"] = {"source": storage, "mode": "MOUNT"}
        head.append(f"# Storage:  {storage}, mounted at {job.remote_folder}/runs: a run goes on from there on another "
                    "machine.")
    else:
        head.append("# Storage:  none was named: the run is on its machine's disk and is lost with it (--storage).")
    return {TASK_FILE: as_yaml(head, task)}


def _resources(job: LaunchJob) -> dict[str, Any]:
    recovery = {"job_recovery": {"strategy": "EAGER_NEXT_REGION", "max_restarts_on_errors": MAX_RESTARTS}}
    if job.platform == "cpu":
        return {"cpus": f"{job.devices}+"} | recovery
    rows = names("skypilot")
    if job.target not in rows:
        raise RequestError(f"--for skypilot --on {job.target}", "an accelerator that SkyPilot has: " + ", ".join(rows),
                           "--for kubernetes" if job.platform == "tpu" else "--on h100")
    # A TPU's name holds its number of chips.
    count = 1 if job.platform == "tpu" else job.devices
    return {"accelerators": f"{rows[job.target]}:{count}"} | recovery


def _torchrun(job: LaunchJob) -> list[str]:
    return [
        f'torchrun --nnodes "$SKYPILOT_NUM_NODES" --node-rank "$SKYPILOT_NODE_RANK" --nproc-per-node {job.devices} \\',
        f'    --max-restarts 0 --master-addr "$first" --master-port {PORT} -m workings {job.command}',
    ]


def _one_a_host(job: LaunchJob) -> list[str]:
    return [
        f'export JAX_COORDINATOR_ADDRESS="$first:{PORT}" JAX_NUM_PROCESSES="$SKYPILOT_NUM_NODES"',
        'export JAX_PROCESS_ID="$SKYPILOT_NODE_RANK"',
        f"workings {job.command}",
    ]
