"""Fields of the page's forms, checked and turned into the argument list of a command."""

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
FIRST_RECIPE = "smoke-tiny"
"""Recipe that a form shows at first."""
# The first character is no dash (an option) and no dot (a hidden folder).
_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9._/-]{0,199}")
_WORD = re.compile(r"[a-z][a-z0-9_.]*=[^\0\n]{1,500}")


def recipe_choices(folder: Folder) -> dict[str, list[str]]:
    """Recipes for a form's menu: shipped ones, and at most `RECIPES` YAML files in the folder, outside of runs."""
    files = []
    # Two levels only: runs are below, and walking their files takes seconds.
    for path in sorted([*folder.root.glob("*.y*ml"), *folder.root.glob("*/*.y*ml"), *folder.root.glob("*/*/*.y*ml")]):
        inside_run = any((parent / MANIFEST).is_file() for parent in path.parents)
        if not path.is_symlink() and path.is_file() and not inside_run:
            # Enough for a menu; the command that gets the file validates it.
            with open_plain(path) as file:
                text = file.read(20_000)
            if b"\nmodel:" in text and b"\ntraining:" in text:
                files.append(path.relative_to(folder.root).as_posix())
    return {"shipped": list(shipped_recipes()), "written": files[:RECIPES]}


def recipe_argument(folder: Folder, recipe: str) -> str:
    """A shipped recipe's name, or a file inside the folder. Raises `RequestError` for anything else."""
    if recipe in shipped_recipes():
        return recipe
    # An argument list needs no quoting, but a leading dash would be an option.
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
    # An unfinished run, which has a suffix, takes the name as well.
    if path.exists() or path.with_name(path.name + PARTIAL_SUFFIX).exists():
        raise RequestError(f"{name} already exists", "the name of a new run", f"{name}-2")
    return str(path)


def override_words(text: str) -> list[str]:
    """Overrides, one `key=value` per line. Raises `RequestError` for any other line."""
    words = [line.strip() for line in text.splitlines() if line.strip()]
    for word in words:
        if not _WORD.fullmatch(word):
            raise RequestError(f"the override {word[:80]} is not of the form key=value", "one override per line",
                               "training.steps=100")
    return words


def target_names(chosen: Sequence[str]) -> list[str]:
    """Targets of the catalog. Raises `RequestError` for an unknown one, or none."""
    if not chosen:
        raise RequestError("no machine was chosen", "one or more machines of the catalog",
                           "go back and tick one, such as cpu")
    return [find_target(name).name for name in chosen]


def paged(rows: Sequence[T], page: int, size: int) -> tuple[Sequence[T], int]:
    """One page of the rows, from 1, and the number of pages. Raises `RequestError` for a page that does not exist."""
    # Rounded up; page 1 always exists, even empty.
    pages = max(1, -(-len(rows) // size))
    if not 1 <= page <= pages:
        raise RequestError(f"there is no page {page}", f"a page from 1 to {pages}", "")
    return rows[size * (page - 1):size * page], pages
