"""Kaggle's settings: the names of its accelerators, and the two files of settings.

`kernel-metadata.json` and `dataset-metadata.json` are as Kaggle's command line reads them. No `docker_image` is named:
pinned to the CPU image, it would take the place of the TPU machine (github.com/Kaggle/kaggle-cli/issues/1197).
"""

import re
from dataclasses import dataclass
from typing import Any

from workings.errors import RequestError
from workings.hardware.catalog import targets

DATASET_SLUG = "workings-wheel"
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One setting of a notebook's accelerator."""

    target: str
    """Name of `workings plan --on`."""
    editor_name: str
    """Name in the notebook editor."""
    machine_shape: str
    """Name in `kernel-metadata.json`."""
    platform: str
    """`tpu` or `gpu`."""
    jax_extra: str
    """Requirement that installs JAX for it, if Kaggle's own is too old."""

    @property
    def session_hours(self) -> float:
        """A session ends after these hours, even while something runs in it."""
        return float(targets()[self.target].kaggle_session_hours or 0)


# Names from github.com/Kaggle/kaggle-cli/pull/1198.
MACHINES = {
    "v5e-8": Machine(target="v5e-8", editor_name="TPU v5e-8", machine_shape="TpuV5E8", platform="tpu", jax_extra="tpu"),
    "t4x2": Machine(target="t4x2", editor_name="GPU T4 x2", machine_shape="NvidiaTeslaT4", platform="gpu",
                    jax_extra="cuda12")}


def find_machine(name: str, device: str) -> Machine:
    """The machine of a name; of an empty name, the one that suits a recipe's device. Raises `RequestError`."""
    if name in MACHINES:
        return MACHINES[name]
    # A name that was given and is not known is never replaced by a guess.
    platform = {"tpu": "tpu", "gpu": "gpu", "cuda": "gpu"}.get(device, "") if not name else ""
    machine = next((machine for machine in MACHINES.values() if machine.platform == platform), None)
    if machine is None:
        raise RequestError(
            f"--on {name} names no machine of Kaggle" if name else f"Kaggle has no machine for device {device}",
            " or ".join(MACHINES), f"--on {next(iter(MACHINES))}")
    return machine


def slug(title: str) -> str:
    """Kaggle's slug of a title: lower case, dashes."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def check_user(user: str) -> str:
    """The name if it can be one. Raises `RequestError`."""
    if not _USER.fullmatch(user):
        raise RequestError(f"--user cannot be {user}", "your name on Kaggle, as in kaggle.com/NAME", "--user NAME")
    return user


def kernel_metadata(user: str, name: str, machine: Machine) -> dict[str, Any]:
    """Contents of `kernel-metadata.json`."""
    # Kaggle makes the slug of a new notebook from its title, so id and title have to agree.
    title = f"workings {name}"
    return {
        "id": f"{user}/{slug(title)}", "title": title, "code_file": f"{name}.ipynb", "language": "python",
        "kernel_type": "notebook", "is_private": True, "enable_gpu": machine.platform == "gpu",
        "enable_tpu": machine.platform == "tpu", "enable_internet": True, "machine_shape": machine.machine_shape,
        "dataset_sources": [f"{user}/{DATASET_SLUG}"], "competition_sources": [], "kernel_sources": [],
        "model_sources": []}


def dataset_metadata(user: str) -> dict[str, Any]:
    """Contents of `dataset-metadata.json`."""
    return {"id": f"{user}/{DATASET_SLUG}", "title": DATASET_SLUG.replace("-", " "),
            "licenses": [{"name": "Apache 2.0"}]}
