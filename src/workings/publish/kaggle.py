"""`launch --for kaggle`: a folder with the notebook and its settings, and one with the wheel and the data."""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import workings
from workings.config.load import LoadedRecipe, load_recipe
from workings.config.model import FromPretrained
from workings.config.recipe import Recipe
from workings.engines.registry import engine_libraries, find_planning_engine
from workings.errors import RequestError
from workings.hardware.catalog import find_target
from workings.inputs.gguf import names_gguf
from workings.kaggle import notebook
from workings.kaggle.notebook import Machine
from workings.planning.planned_run import mesh_of
from workings.record import atomic
from workings.record.digest import file_digest
from workings.record.layout import SUMS
from workings.record.seal import sums_text
from workings.runs.choices import with_choices

_USER = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
BUILD_EPOCH = "1767225600"
"""Time that a wheel built here carries, so that equal sources give equal bytes (2026-01-01)."""


@dataclass(frozen=True, kw_only=True)
class KaggleFolders:
    """The made folders, and what the next commands need to know of them."""

    notebook: Path
    dataset: Path
    machine: Machine
    wheel_sha256: str
    kernel_id: str
    dataset_id: str
    gated: str
    """Id of a model that the notebook fetches from the Hub, which may ask for a token; empty if it fetches none."""

    def to_json(self) -> dict[str, str]:
        """Keys of ``launch --for kaggle --json``."""
        return {"notebook": str(self.notebook), "dataset": str(self.dataset), "kernel_id": self.kernel_id,
                "dataset_id": self.dataset_id, "machine": self.machine.editor_name, "wheel_sha256": self.wheel_sha256}


def write_kaggle(recipe: str, out: Path, overrides: Sequence[str] = (), *, user: str, on: str = "",
                 wheel: Path | None = None, smoke: bool = False) -> KaggleFolders:
    """Make `out/notebook` and `out/dataset`. The overrides become part of the recipe in the notebook.

    ``user``: name on Kaggle; ``on``: `v5e-8` or `t4x2`, by default what suits the recipe's device; ``wheel``: this
    package's, by default built from the checkout that this runs from; ``smoke``: run the same path with a tiny model on
    a CPU. Raises `RequestError` if ``out`` exists, no wheel can be had, or data that the recipe names are above it.
    """
    if out.exists():
        raise RequestError(f"--out {out} already exists", "a folder that does not exist yet", "another --out")
    if not _USER.fullmatch(user):
        raise RequestError(f"--user cannot be {user}", "your name on Kaggle, as in kaggle.com/NAME", "--user NAME")
    loaded = load_recipe(recipe, overrides)
    machine = notebook.find_machine(on, loaded.recipe.device)
    # `auto` is decided here, for Kaggle's machine and not for this one.
    loaded = with_choices(loaded, find_target(machine.target))
    model = loaded.recipe.model
    if isinstance(model, FromPretrained) and (loaded.path(model.id).is_dir() or names_gguf(model.id)):
        raise RequestError(f"the model {model.id} is on this machine only", "a Hub id, or the path below /kaggle/input "
                           "of a model that is attached to the notebook", "model.id=google/gemma-2b")
    data = data_files(loaded)
    with tempfile.TemporaryDirectory(prefix="workings-kaggle-") as folder:
        built = wheel or build_wheel(Path(folder))
        if not zipfile.is_zipfile(built) or built.suffix != ".whl":
            raise RequestError(f"--wheel {built} is not a wheel", "this package's wheel",
                               "make dist, then --wheel dist/…")
        request = notebook.NotebookRequest(
            name=loaded.recipe.name, recipe=loaded.written(), machine=machine,
            libraries=engine_libraries(loaded.recipe.engine), wheel_sha256=file_digest(built), smoke=smoke,
            processes=processes_on(machine, loaded.recipe), data={name: file_digest(data[name]) for name in data})
        kernel = notebook.kernel_metadata(user, request.name, machine)
        with atomic.new_folder(out, "write") as new_folder:
            _write_dataset(new_folder / "dataset", built, data, user)
            notebook_folder = new_folder / "notebook"
            notebook_folder.mkdir()
            for name, contents in ((f"{request.name}.ipynb", notebook.notebook_text(request)),
                                   (f"{request.name}.py", notebook.script(request)),
                                   ("kernel-metadata.json", json.dumps(kernel, indent=2) + "\n")):
                atomic.write_text(notebook_folder / name, contents)
    return KaggleFolders(notebook=out / "notebook", dataset=out / "dataset", machine=machine,
                         wheel_sha256=request.wheel_sha256, kernel_id=str(kernel["id"]),
                         dataset_id=str(kernel["dataset_sources"][0]),
                         gated=model.id if isinstance(model, FromPretrained) else "")


def processes_on(machine: Machine, recipe: Recipe) -> int:
    """Processes that train: one for each card if the engine needs that, else 1."""
    one_a_card = getattr(find_planning_engine(recipe.engine), "process_per_device", False)
    return mesh_of(recipe, find_target(machine.target)).devices if one_a_card else 1


def data_files(loaded: LoadedRecipe) -> dict[str, Path]:
    """Files that the recipe names, by the path that it names. Raises `RequestError` for one that is not below it."""
    recipe, files = loaded.recipe, dict[str, Path]()
    for name in (recipe.data.traces, recipe.evaluation.traces, recipe.evaluation.items):
        path = loaded.path(name)
        if not path.is_file():
            continue  # a shipped set, made on the spot
        if Path(name).is_absolute() or ".." in PurePosixPath(name).parts or name.startswith("~"):
            raise RequestError(f"{loaded.origin} names {name} outside its folder", "data next to the recipe or below "
                               "it, so that the notebook finds them under the same name",
                               "move them and change the recipe")
        files[name] = path
    return files


def build_wheel(folder: Path) -> Path:
    """Build this package's wheel from the checkout. Raises `RequestError` without a checkout or a build tool."""
    # The folder above `src/workings`; above an installed package there is no `pyproject.toml`.
    root = Path(workings.__file__).resolve().parents[2]
    if not (root / "pyproject.toml").is_file():
        raise RequestError("--wheel is missing, and this package was not started from a checkout",
                           "the wheel to install there", "--wheel workings-….whl")
    words = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(folder), str(root)]
    done = subprocess.run(words, env={**os.environ, "SOURCE_DATE_EPOCH": BUILD_EPOCH}, capture_output=True, text=True,
                          check=False)
    wheels = sorted(folder.glob("*.whl"))
    if done.returncode or not wheels:
        lines = (done.stderr or done.stdout).strip().splitlines()
        reason = lines[-1][:200] if lines else "no output"
        raise RequestError(f"--wheel is missing, and building one failed: {reason}",
                           "the tools `build` and `hatchling`", "make setup, or --wheel workings-….whl")
    return wheels[0]


def _write_dataset(folder: Path, wheel: Path, data: dict[str, Path], user: str) -> None:
    folder.mkdir(parents=True)
    shutil.copyfile(wheel, folder / wheel.name)
    for name, path in data.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, folder / name)
    # Sums before the metadata: Kaggle keeps that file to itself, and a sum of it could not be checked there.
    digests = {path.relative_to(folder).as_posix(): file_digest(path) for path in sorted(folder.rglob("*"))
               if path.is_file()}
    atomic.write_bytes(folder / SUMS, sums_text(digests))
    metadata = {"id": f"{user}/{notebook.DATASET_SLUG}", "title": notebook.DATASET_SLUG.replace("-", " "),
                "licenses": [{"name": "Apache 2.0"}]}
    atomic.write_text(folder / "dataset-metadata.json", json.dumps(metadata, indent=2) + "\n")
