"""The file that a launcher reads, made of a template: a batch script, an object of Kubernetes, or a task."""

import re
from dataclasses import dataclass

import jinja2

from workings.errors import RequestError
from workings.launching.job import LaunchJob, names
from workings.record.environment import LAUNCHER

PORT = 29500
"""Port of process 0: torchrun's own default; of JAX any port will do."""
MAX_RESTARTS = 10
"""Maximum restarts of a preempted job before someone has to look."""
SECONDS_TO_SAVE = 300
"""Seconds between the request to stop and the end, in which the run saves."""
START = {"slurm": "sbatch", "kubernetes": "kubectl create -f", "skypilot": "sky jobs launch"}
"""Command in front of the file's name."""
BUCKET_ADDRESS = re.compile(r"(gs|s3|r2|cos)://[a-z0-9][a-z0-9._/-]*")


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """This package's wheel, which is next to a task: a name on a registry may be someone else's tomorrow."""

    name: str
    sha256: str


def slurm(job: LaunchJob) -> dict[str, str]:
    """The batch script by its name. Raises `RequestError` for a TPU."""
    if job.platform == "tpu":
        raise RequestError(f"Slurm has no {job.target}: it does not lend TPUs", "cards or CPUs",
                           "--for kubernetes")
    return _file("job.sbatch", job, "slurm")


def kubernetes(job: LaunchJob, *, image: str, claim: str) -> dict[str, str]:
    """A `TrainJob` or, for a TPU, a `JobSet` by its file's name.

    Args:
        job: the run.
        image: container image in which `workings` is installed with the engine.
        claim: PersistentVolumeClaim that all pods mount at the job's folder.

    Raises:
        RequestError: no image, or a TPU that Google Kubernetes Engine does not offer as a slice.
    """
    if not image:
        raise RequestError("--for kubernetes needs --image", "the image in which workings is installed",
                           "--image registry/name:tag")
    if job.platform != "tpu":
        return _file("trainjob.yaml", job, "kubernetes-trainjob", image=image, claim=claim)
    rows = names("kubernetes")
    if (family := job.target.rsplit("-", 1)[0]) not in rows:
        raise RequestError(f"Google Kubernetes Engine has no slice {job.target}", "one of "
                           + ", ".join(rows), "--on v5e-8")
    return _file("jobset.yaml", job, "kubernetes-jobset", image=image, claim=claim, accelerator=rows[family])


def skypilot(job: LaunchJob, *, storage: str, wheel: Wheel) -> dict[str, str]:
    """The task by its file's name; ``storage`` is a bucket that is mounted at the folder of runs, or empty.

    Raises:
        RequestError: no such kind of bucket, or an accelerator that SkyPilot does not have.
    """
    rows = names("skypilot")
    if job.platform != "cpu" and job.target not in rows:
        raise RequestError(f"SkyPilot has no {job.target}", "one of " + ", ".join(rows),
                           "--for kubernetes" if job.platform == "tpu" else "--on h100")
    if storage and not BUCKET_ADDRESS.fullmatch(storage):
        raise RequestError(f"--storage {storage} is not a bucket", "a bucket, such as gs://my-runs or s3://my-runs/a",
                           "--storage gs://my-runs")
    return _file("task.yaml", job, "skypilot", storage=storage, wheel=wheel, accelerator=rows.get(job.target, ""))


def _file(name: str, job: LaunchJob, launcher: str, **values: object) -> dict[str, str]:
    # Not HTML. Names and paths that get into a script are checked by `LaunchJob`; other texts are written as JSON.
    environment = jinja2.Environment(  # noqa: S701
        loader=jinja2.PackageLoader("workings.launching"), undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True)
    text = environment.get_template(f"{name}.jinja").render(
        job=job, name=name, launcher=launcher, start=START[launcher.partition("-")[0]], variable=LAUNCHER, port=PORT,
        max_restarts=MAX_RESTARTS, seconds_to_save=SECONDS_TO_SAVE, **values)
    return {name: text}
