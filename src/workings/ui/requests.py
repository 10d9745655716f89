"""Checks the fields of the page's forms, and makes a command's arguments from them."""

import math
import re
from collections.abc import Sequence
from typing import TypeVar

from workings.config.load import shipped_recipes
from workings.errors import RequestError
from workings.hardware.catalog import find_target
from workings.record.layout import MANIFEST, PARTIAL_SUFFIX
from workings.record.storage import open_plain
from workings.ui.folder import Folder

T = TypeVar("T")
RECIPES = 500
"""Most recipes of the folder in a menu."""
FIRST_RECIPE = "smoke-tiny"
"""Recipe that a form shows at first."""
# A dash at the beginning would be an option, and a dot a hidden folder.
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}")
_WORD = re.compile(r"[a-z][a-z0-9_.]*=[^\0\n]{1,500}")


def recipe_choices(folder: Folder) -> dict[str, list[str]]:
    """Recipes for a form's menu: shipped ones, and YAML files in the folder and two levels below it, not in runs."""
    files = []
    for path in sorted([*folder.root.glob("*.y*ml"), *folder.root.glob("*/*.y*ml"), *folder.root.glob("*/*/*.y*ml")]):
        inside_run = any((parent / MANIFEST).is_file() for parent in path.parents)
        if not path.is_symlink() and path.is_file() and not inside_run:
            # Whether it looks like a recipe; the command that gets the file checks it.
            with open_plain(path) as file:
                text = file.read(20_000)
            if b"\nmodel:" in text and b"\ntraining:" in text:
                files.append(path.relative_to(folder.root).as_posix())
    return {"shipped": list(shipped_recipes()), "written": files[:RECIPES]}


def recipe_argument(folder: Folder, recipe: str) -> str:
    """A shipped recipe's name, or a file inside the folder. Raises `RequestError` for anything else."""
    if recipe in shipped_recipes():
        return recipe
    if recipe.startswith("-") or not (path := folder.inside(recipe)).is_file():
        raise RequestError(f"there is no recipe {recipe}", "a shipped recipe, or a recipe file in this folder",
                           "workings recipes list")
    return str(path)


def new_place(folder: Folder, name: str) -> str:
    """The path of a new run inside the folder."""
    if not _NAME.fullmatch(name) or ".." in name.split("/"):
        raise RequestError(f"a run cannot be named {name}", "letters, digits and ._-/ for a new run inside this folder",
                           "first-run")
    path = folder.inside(name)
    if path.exists() or path.with_name(path.name + PARTIAL_SUFFIX).exists():
        raise RequestError(f"{name} already exists", "the name of a new run", f"{name}-2")
    return str(path)


def override_words(text: str) -> list[str]:
    """Overrides from lines `key=value`. Raises `RequestError` for any other line."""
    words = [line.strip() for line in text.splitlines() if line.strip()]
    for word in words:
        if not _WORD.fullmatch(word):
            raise RequestError(f"the override {word[:80]} is not of the form key=value", "one override per line",
                               "training.steps=100")
    return words


def target_names(chosen: Sequence[str]) -> list[str]:
    """Names of targets in the catalog. Raises `RequestError` for an unknown one, or none."""
    if not chosen:
        raise RequestError("no machine was chosen", "one or more machines of the catalog",
                           "go back and tick one, such as cpu")
    return [find_target(name).name for name in chosen]


def paged(rows: Sequence[T], page: int, size: int) -> tuple[Sequence[T], int]:
    """A page of the rows, counted from 1, and the number of pages. Raises `RequestError` if there is no such page."""
    pages = max(1, math.ceil(len(rows) / size))
    if not 1 <= page <= pages:
        raise RequestError(f"there is no page {page}", f"a page from 1 to {pages}", "")
    return rows[size * (page - 1):size * page], pages
