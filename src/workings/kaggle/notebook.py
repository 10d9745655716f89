"""Makes a notebook and its script twin from a recipe (one template, cut at its `# %%` lines), and Kaggle's settings.

`kernel-metadata.json` and `dataset-metadata.json` are as Kaggle's command line reads them. No `docker_image` is named:
pinned to the CPU image, it would take the place of the TPU machine (github.com/Kaggle/kaggle-cli/issues/1197).
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
_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
UPGRADABLE = "jax"
"""The only library that a notebook may install anew if the image's version is too old."""
_CELL = re.compile(r"^# %%(?P<markdown> \[markdown\])?\n", re.MULTILINE)
_MARK = re.compile(r"@@([A-Z0-9_]+)@@")


@dataclass(frozen=True, kw_only=True)
class Machine:
    """One setting of a notebook's accelerator."""

    target: str
    """Name of `workings plan --on`."""
    editor_name: str
    machine_shape: str
    """Name in `kernel-metadata.json`."""
    platform: str
    """`tpu` or `gpu`."""
    jax_extra: str
    """Requirement that installs JAX for it, if Kaggle's own is too old."""


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
    machine = next((machine for machine in MACHINES.values() if machine.platform == without_alias(device)), None)
    if name or machine is None:
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


@dataclass(frozen=True, kw_only=True)
class NotebookRequest:
    """A request for a notebook."""

    name: str
    recipe: str
    """The recipe as it is written into the notebook."""
    libraries: tuple[str, ...]
    """Modules that the run's engine needs."""
    machine: Machine
    data: dict[str, str]
    """Data files by the path that the recipe names, with their SHA-256."""
    wheel_sha256: str = ""
    """Empty: the digest that is next to the wheel counts."""
    smoke: bool = False
    processes: int = 1
    """Processes that train together: one a card with PyTorch."""


def script(request: NotebookRequest) -> str:
    """The script twin: the notebook's cells in one script."""
    recipe = request.recipe.removesuffix("\n")
    # Readable lines, unless a triple-quoted string would end at a part of the recipe or change it.
    recipe = repr(request.recipe) if '"""' in recipe or "\\" in recipe else f'"""\\\n{recipe}\n"""'
    # Values that become code go in as literals, by `repr`: a quote in a name cannot end the string.
    machine = request.machine
    values = {
        "TITLE": f"workings: {request.name} on {machine.editor_name}",
        "SUMMARY": "Doctor, plan, smoke run, training, evaluation, verification and packing of one recipe.",
        "EDITOR_NAME": machine.editor_name, "SESSION_HOURS": str(targets()[machine.target].kaggle_session_hours),
        "RUN": repr(request.name), "RUN_NAME": request.name, "TARGET": repr(machine.target),
        "SMOKE": repr(request.smoke), "PROCESSES": repr(request.processes), "WHEEL_SHA256": repr(request.wheel_sha256),
        "JAX_NEEDED": repr(jax_needed() if UPGRADABLE in request.libraries else ""),
        "JAX_PIN": repr(f"jax[{machine.jax_extra}]=={jax_needed()}"),
        "DATA": repr(dict(sorted(request.data.items()))), "RECIPE": recipe,
    }
    text = (files("workings.kaggle") / "template.py.txt").read_text(encoding="utf-8")
    # A function as replacement, because backslashes in a recipe would mean groups in a text.
    return _MARK.sub(lambda match: values[match.group(1)], text)


def notebook_text(request: NotebookRequest) -> str:
    """The notebook as the text of an `.ipynb` file (format 4.5), the same for the same request."""
    made = []
    for number, (markdown, source) in enumerate(cells(script(request))):
        of_kind: dict[str, Any] = {"cell_type": "markdown"} if markdown else {
            "cell_type": "code", "execution_count": None, "outputs": []}
        made.append(of_kind | {"id": f"cell-{number:02d}", "metadata": {}, "source": source.splitlines(keepends=True)})
    notebook = {
        "cells": made, "nbformat": 4, "nbformat_minor": 5, "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"}}}
    return json.dumps(notebook, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def cells(text: str) -> list[tuple[bool, str]]:
    """The cells of a script in percent format: whether it is Markdown, and its source."""
    matches = list(_CELL.finditer(text))
    # A cell ends where the next one begins; text before the first mark belongs to none.
    ends = [match.start() for match in matches[1:]] + [len(text)]
    sources = [text[match.end():end].strip("\n") for match, end in zip(matches, ends, strict=True)]
    return [(True, "\n".join(line.removeprefix("#").removeprefix(" ") for line in source.splitlines()))
            if match["markdown"] else (False, source) for match, source in zip(matches, sources, strict=True)]


def jax_needed() -> str:
    """The oldest JAX that the installed package asks for."""
    lines = [re.match(r"jax\s*>=\s*([\d.]+)", line) for line in requires("workings") or []]
    return next(match[1] for match in lines if match)
