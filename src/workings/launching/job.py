"""A run on another machine: what is started there, on how many hosts, and the paths of its files."""

import json
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

from workings.errors import RequestError

JOB_NAME = re.compile(r"[a-z]([a-z0-9-]{0,38}[a-z0-9])?")
REMOTE_FOLDER = re.compile(r"/[A-Za-z0-9._/-]*[A-Za-z0-9._-]")
RECIPE, PLAN = "recipe.yaml", "plan.json"


@dataclass(frozen=True, kw_only=True)
class LaunchJob:
    """A job, as far as all launchers need it."""

    name: str
    """Name of the run and of the job: lower case, digits and dashes, as Kubernetes requires."""
    engine: str
    """One of those that `names.json` says how to start."""
    platform: Literal["cpu", "gpu", "tpu"]
    target: str
    """Name of the machine in the catalog."""
    hosts: int
    devices: int
    """Cards or chips of one host."""
    remote_folder: str
    """The folder that these files are put into, on a file system that all hosts see."""
    recipe_digest: str
    """SHA-256 of the recipe as the run will record it."""
    plan: str
    """The plan's verdict, as a sentence."""
    file_notes: tuple[str, ...]
    """Sentences about the paths of data and weights on the other machine."""
    topology: str = ""
    """Topology of a TPU slice, such as ``2x4``."""
    stores: bool = False
    """Whether data or weights are in an object store."""

    def __post_init__(self) -> None:
        if self.engine not in (engines := table()["engines"]):
            raise RequestError(f"the engine {self.engine} cannot be launched",
                               "an engine that is known to run in several processes: " + ", ".join(engines),
                               f"engine={next(iter(engines))}")
        if not JOB_NAME.fullmatch(self.name):
            raise RequestError(f"--name cannot be {self.name}",
                               "at most 40 lower case letters, digits and dashes, a letter first", "--name my-run")
        # The text goes into a shell script on another machine, so nothing that a shell reads may be in it.
        if not REMOTE_FOLDER.fullmatch(self.remote_folder) or ".." in self.remote_folder:
            raise RequestError(f"--home cannot be {self.remote_folder}",
                               "an absolute path on the cluster, of letters, digits and ._/-",
                               "--home /shared/my-run")

    @property
    def process_per_device(self) -> bool:
        """Whether torchrun starts a process a card; else there is one a host, which is told where the first one is."""
        return bool(table()["engines"][self.engine]["process_per"] == "device")

    @property
    def runtime(self) -> str:
        """Kubeflow Trainer's runtime for the engine."""
        return str(table()["engines"][self.engine]["runtime"])

    @property
    def extra(self) -> str:
        """Extras of this package that install the engine for the platform, and the reader of object stores."""
        engine = str(table()["engines"][self.engine]["extras"][self.platform])
        return f"{engine},stores" if self.stores else engine

    @property
    def run(self) -> str:
        """The run directory, from `remote_folder`."""
        return f"runs/{self.name}"

    @property
    def command(self) -> str:
        """The words behind `workings`."""
        return f"train {RECIPE} --out {self.run} --auto-resume"


@cache
def table() -> dict[str, Any]:
    """`names.json`, which holds its sources."""
    values: dict[str, Any] = json.loads(files("workings.launching").joinpath("names.json").read_text(encoding="utf-8"))
    return values


def names(launcher: str) -> dict[str, str]:
    """A launcher's names of accelerators."""
    by_purpose: dict[str, str] = table()[launcher]["names"]
    return by_purpose
