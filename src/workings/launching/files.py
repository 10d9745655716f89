"""Makes the files with which Slurm, Kubernetes and SkyPilot start a run on other machines, from templates."""

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

import jinja2

from workings.errors import RequestError
from workings.record.environment import LAUNCHER

JOB_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
REMOTE_FOLDER = re.compile(r"/[A-Za-z0-9._/-]*[A-Za-z0-9._-]")
RECIPE, PLAN = "recipe.yaml", "plan.json"
PORT = 29500
"""Port of process 0, as torchrun's default."""
MAX_RESTARTS = 10
"""Most restarts of a preempted job."""
SECONDS_TO_SAVE = 300
"""Seconds from the request to stop to the end, in which the run saves a checkpoint."""
START = {"slurm": "sbatch", "kubernetes": "kubectl create -f", "skypilot": "sky jobs launch"}
"""Launcher -> command that starts a job; the file's name follows it."""
BUCKET_ADDRESS = re.compile(r"(gs|s3|r2|cos)://[a-z0-9][a-z0-9._/-]*")


@dataclass(frozen=True, kw_only=True)
class LaunchJob:
    """A run on another machine, as all launchers need it. Raises `RequestError` for unusable values."""

    name: str
    """Name of the run and of the job: lower case, digits and dashes, as Kubernetes requires."""
    engine: str
    """An engine of `names.json`."""
    platform: Literal["cpu", "gpu", "tpu"]
    target: str
    hosts: int
    devices: int
    """Cards or chips per host."""
    remote_folder: str
    """Folder for these files, on a file system that all hosts see."""
    recipe_digest: str = ""
    """SHA-256 of the recipe as the run will record it."""
    plan: str = ""
    """The plan's verdict, as a sentence."""
    file_notes: tuple[str, ...] = ()
    """Sentences about the paths of data and weights on the other machine."""
    topology: str = ""
    """Topology of a TPU slice, such as ``2x4``."""
    stores: bool = False
    """Whether data or weights are in an object store."""

    def __post_init__(self) -> None:
        engines = table()["engines"]
        if self.engine not in engines:
            known = f"an engine that is known to run in several processes: {', '.join(engines)}"
            raise RequestError(f"the engine {self.engine} cannot be launched", known, f"engine={next(iter(engines))}")
        if not JOB_NAME.fullmatch(self.name):
            raise RequestError(f"--name cannot be {self.name}",
                               "at most 40 lower case letters, digits and dashes, a letter first", "--name my-run")
        # It is part of a shell script, so it must not contain what a shell interprets.
        if not REMOTE_FOLDER.fullmatch(self.remote_folder) or ".." in self.remote_folder:
            raise RequestError(f"--home cannot be {self.remote_folder}", "an absolute path on the cluster, of letters, "
                               "digits and ._/-", "--home /shared/my-run")

    @property
    def command(self) -> str:
        """The arguments of `workings`."""
        return f"train {RECIPE} --out runs/{self.name} --auto-resume"


@cache
def table() -> dict[str, Any]:
    """`names.json`: engines, and the launchers' names of accelerators, with their sources."""
    return dict(json.loads(files("workings.launching").joinpath("names.json").read_text(encoding="utf-8")))


@dataclass(frozen=True, kw_only=True)
class Wheel:
    """This package's wheel, which is put next to the file of a task."""

    name: str
    sha256: str


def slurm(job: LaunchJob) -> dict[str, str]:
    """The batch script, as name -> text. Raises `RequestError` for a TPU."""
    if job.platform == "tpu":
        raise RequestError(f"Slurm has no {job.target}: it does not lend TPUs", "cards or CPUs", "--for kubernetes")
    return _file("job.sbatch", job, "slurm")


def kubernetes(job: LaunchJob, *, image: str, claim: str) -> dict[str, str]:
    """A `TrainJob` or, for a TPU, a `JobSet`, as file's name -> text.

    ``image`` is a container image with `workings` and the engine; ``claim`` is the PersistentVolumeClaim that all pods
    mount at the job's folder. Raises `RequestError` without an image, or for a TPU that Google does not offer.
    """
    if not image:
        raise RequestError("--for kubernetes needs --image", "the image in which workings is installed",
                           "--image registry/name:tag")
    if job.platform != "tpu":
        return _file("trainjob.yaml", job, "kubernetes-trainjob", image=image, claim=claim)
    names: dict[str, str] = table()["kubernetes"]["names"]
    family = job.target.rsplit("-", 1)[0]  # v5e of v5e-8
    if family not in names:
        raise RequestError(f"Google Kubernetes Engine has no slice {job.target}", f"one of {', '.join(names)}",
                           "--on v5e-8")
    return _file("jobset.yaml", job, "kubernetes-jobset", image=image, claim=claim, accelerator=names[family])


def skypilot(job: LaunchJob, *, storage: str, wheel: Wheel) -> dict[str, str]:
    """The task, as file's name -> text; ``storage`` is a bucket to mount at the folder of runs, or empty.

    Raises `RequestError` for an unknown kind of bucket, or an accelerator that SkyPilot does not have.
    """
    names: dict[str, str] = table()["skypilot"]["names"]
    if job.platform != "cpu" and job.target not in names:
        raise RequestError(f"SkyPilot has no {job.target}", f"one of {', '.join(names)}",
                           "--for kubernetes" if job.platform == "tpu" else "--on h100")
    if storage and not BUCKET_ADDRESS.fullmatch(storage):
        raise RequestError(f"--storage {storage} is not a bucket", "a bucket, such as gs://my-runs or s3://my-runs/a",
                           "--storage gs://my-runs")
    return _file("task.yaml", job, "skypilot", storage=storage, wheel=wheel, accelerator=names.get(job.target, ""))


def _file(name: str, job: LaunchJob, launcher: str, **values: object) -> dict[str, str]:
    """The template of a file, filled in, by its name; ``launcher``: such as `slurm` or `kubernetes-jobset`."""
    # Nothing is escaped: `LaunchJob` has checked names and paths, and other texts are written as JSON.
    environment = jinja2.Environment(  # noqa: S701
        loader=jinja2.PackageLoader("workings.launching"), undefined=jinja2.StrictUndefined, trim_blocks=True,
        lstrip_blocks=True, keep_trailing_newline=True)
    text = environment.get_template(f"{name}.jinja").render(
        job=job, engine=table()["engines"][job.engine], name=name, launcher=launcher, variable=LAUNCHER, port=PORT,
        start=START[launcher.partition("-")[0]], max_restarts=MAX_RESTARTS, seconds_to_save=SECONDS_TO_SAVE, **values)
    return {name: text}
