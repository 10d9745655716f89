"""Makes a Kaggle notebook from a recipe, and the settings that Kaggle's command line reads.

A template becomes a script in percent format (cells begin with `# %%`), and the script becomes the notebook. The
settings name no `docker_image`, which would replace the TPU machine (github.com/Kaggle/kaggle-cli/issues/1197).
"""

import json
import re
from dataclasses import dataclass
from importlib.metadata import requires
from importlib.resources import files
from typing import Any

from workings.errors import RequestError
from workings.hardware.catalog import targets
from workings.hardware.device import without_alias

DATASET_SLUG = "workings-wheel"
_CELL = re.compile(r"^# %%(?P<markdown> \[markdown\])?\n", re.MULTILINE)
_MARK = re.compile(r"@@([A-Z0-9_]+)@@")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """An accelerator that Kaggle offers."""

    target: str
    """Its name for `workings plan --on`."""
    editor_name: str
    """Its name in the notebook's editor."""
    machine_shape: str
    """Its name in `kernel-metadata.json`."""
    platform: str
    """`tpu` or `gpu`."""
    jax_extra: str
    """JAX's extra for it."""


# Names from github.com/Kaggle/kaggle-cli/pull/1198.
MACHINES = {
    "v5e-8": Machine(target="v5e-8", editor_name="TPU v5e-8", machine_shape="TpuV5E8", platform="tpu", jax_extra="tpu"),
    "t4x2": Machine(target="t4x2", editor_name="GPU T4 x2", machine_shape="NvidiaTeslaT4", platform="gpu",
                    jax_extra="cuda12")}


def find_machine(name: str, device: str) -> Machine:
    """The machine of this name; without a name, one for the recipe's ``device``. Raises `RequestError`."""
    if name in MACHINES:
        return MACHINES[name]
    given = f"--on {name} names no machine of Kaggle"
    if not name:
        for machine in MACHINES.values():
            if machine.platform == without_alias(device):
                return machine
        given = f"Kaggle has no machine for device {device}"
    raise RequestError(given, " or ".join(MACHINES), f"--on {next(iter(MACHINES))}")


def slug(title: str) -> str:
    """The slug that Kaggle makes of a title: lower case, with dashes."""
    return re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")


def kernel_metadata(user: str, name: str, machine: Machine) -> dict[str, Any]:
    """Contents of `kernel-metadata.json`. Its id must be the slug of its title."""
    title = f"workings {name}"
    return {
        "id": f"{user}/{slug(title)}", "title": title, "code_file": f"{name}.ipynb", "language": "python",
        "kernel_type": "notebook", "is_private": True, "enable_gpu": machine.platform == "gpu",
        "enable_tpu": machine.platform == "tpu", "enable_internet": True, "machine_shape": machine.machine_shape,
        "dataset_sources": [f"{user}/{DATASET_SLUG}"], "competition_sources": [], "kernel_sources": [],
        "model_sources": []}


@dataclass(frozen=True, kw_only=True)
class NotebookRequest:
    """What a notebook is made from."""

    name: str
    """Name of the run."""
    recipe: str
    """The recipe's text."""
    libraries: tuple[str, ...]
    """Modules that the run's engine needs."""
    machine: Machine
    data: dict[str, str]
    """Path of a data file in the recipe -> its SHA-256."""
    wheel_sha256: str = ""
    """Digest of the package's wheel; empty: as in the file next to the wheel."""
    smoke: bool = False
    processes: int = 1
    """Processes that train together: with PyTorch one per card."""


def script(request: NotebookRequest) -> str:
    """The notebook's cells as one script."""
    recipe_text = request.recipe.removesuffix("\n")
    recipe = f'"""\\\n{recipe_text}\n"""'
    if '"""' in request.recipe or "\\" in request.recipe:  # would end the string, or change in it
        recipe = repr(request.recipe)
    # Values in code are written by `repr`, so that a quote cannot end a string.
    machine = request.machine
    values = {
        "TITLE": f"workings: {request.name} on {machine.editor_name}", "EDITOR_NAME": machine.editor_name,
        "SESSION_HOURS": str(targets()[machine.target].kaggle_session_hours),
        "RUN": repr(request.name), "TARGET": repr(machine.target), "RECIPE": recipe,
        "SMOKE": repr(request.smoke), "PROCESSES": repr(request.processes), "WHEEL_SHA256": repr(request.wheel_sha256),
        "JAX_NEEDED": repr(jax_needed() if "jax" in request.libraries else ""),
        "JAX_PIN": repr(f"jax[{machine.jax_extra}]=={jax_needed()}"), "DATA": repr(dict(sorted(request.data.items())))}
    template = (files("workings.kaggle") / "template.py.txt").read_text(encoding="utf-8")
    # By a function, because `sub` would interpret backslashes in a text.
    return _MARK.sub(lambda match: values[match.group(1)], template)


def notebook_text(request: NotebookRequest) -> str:
    """The text of the `.ipynb` file, in format 4.5; the same for the same request."""
    notebook_cells = []
    for number, (is_markdown, source) in enumerate(cells(script(request))):
        cell: dict[str, Any] = {"id": f"cell-{number:02d}", "metadata": {}, "source": source.splitlines(keepends=True)}
        if is_markdown:
            cell["cell_type"] = "markdown"
        else:
            cell |= {"cell_type": "code", "execution_count": None, "outputs": []}
        notebook_cells.append(cell)
    metadata = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
                "language_info": {"name": "python"}}
    notebook = {"cells": notebook_cells, "nbformat": 4, "nbformat_minor": 5, "metadata": metadata}
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def cells(text: str) -> list[tuple[bool, str]]:
    """The cells of a script in percent format: of each, whether it is Markdown, and its source."""
    found, matches = [], list(_CELL.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    for match, end in zip(matches, ends, strict=True):
        is_markdown, source = match["markdown"] is not None, text[match.end():end].strip("\n")
        if is_markdown:  # its lines are comments
            source = "\n".join(line.removeprefix("#").removeprefix(" ") for line in source.splitlines())
        found.append((is_markdown, source))
    return found


def jax_needed() -> str:
    """The oldest JAX that the installed package asks for."""
    lines = [re.match(r"jax\s*>=\s*([\d.]+)", line) for line in requires("workings") or []]
    return next(match[1] for match in lines if match)
