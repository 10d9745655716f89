"""`kernel-metadata.json` and `dataset-metadata.json`, as Kaggle's command line reads them.

No `docker_image` is named: pinned to the CPU image, it would take the place of the TPU machine
(github.com/Kaggle/kaggle-cli/issues/1197).
"""

import re
from typing import Any

from workings.errors import RequestError
from workings.kaggle.machines import Machine

DATASET_SLUG = "workings-wheel"
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")


def slug(title: str) -> str:
    """How Kaggle makes a slug of a title: lower case, dashes."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def check_user(user: str) -> str:
    """The name if it can be one. Raises `RequestError`."""
    if not _USER.fullmatch(user):
        raise RequestError(f"--user {user}", "your name on Kaggle, as in kaggle.com/NAME", "--user NAME")
    return user


def kernel_metadata(user: str, name: str, machine: Machine) -> dict[str, Any]:
    """Contents of `kernel-metadata.json`."""
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
