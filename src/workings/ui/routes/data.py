"""`/data`: rows of a recipe as the model will see them, and what `data check` finds in its traces."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import urlencode

from fastapi import APIRouter, Form, UploadFile
from fastapi.responses import HTMLResponse, RedirectResponse
from pydantic import BaseModel, Field

from workings.config.load import load_recipe, shipped_recipes
from workings.config.recipe_paths import recipe_paths
from workings.errors import RequestError
from workings.ui.jobs import ask
from workings.ui.requests import FIRST_RECIPE, free_file, override_words, recipe_argument, recipe_files
from workings.ui.site import Site

# Each token is a span of markup, and a row may have thousands.
ROWS_SHOWN = 8


class DataAnswer(BaseModel):
    """`workings data preview --json` of a recipe, and the `data check --json` of its traces."""

    recipe: str
    commands: list[str]
    preview: dict[str, Any]
    check: dict[str, Any] = Field(description="Empty if not requested")
    check_problem: str = Field(default="", description="Why the traces could not be checked")


ANSWER_BYTES = 1 << 20
"""Bytes of a command's answer in memory, as an upper limit."""


def looked_at(site: Site, recipe: str, row: str, check: bool, overrides: list[str]) -> DataAnswer:
    """Preview and optional check; cached until the recipe or one of its files changes."""
    recipe_path = recipe_argument(site.folder, recipe)
    loaded = load_recipe(recipe_path, overrides)
    if not Path(recipe_path).is_file():  # a shipped recipe's files are in the folder
        loaded = replace(loaded, base=site.folder.root)
    data_paths = [loaded.path(name) for _, _, name in recipe_paths(loaded.recipe.model_dump(mode="json"))]
    files = [file for path in (Path(recipe_path), *data_paths)
             for file in (sorted(path.iterdir()) if path.is_dir() else [path])]

    def asked(words: list[str]) -> dict[str, Any]:
        # A recipe's file may change between two looks: then the command runs again.
        return site.folder.cache.get(("asked", *words), files, lambda: ask(words, site.folder.root),
                                     lambda _: ANSWER_BYTES)

    words = ["data", "preview", recipe_path, *overrides, "--n", str(ROWS_SHOWN), *(["--row", row] if row else [])]
    commands, checked, problem = [" ".join(["workings", *words])], {}, ""
    preview = asked(words)
    if check:
        data, items = loaded.recipe.data, loaded.recipe.evaluation.items
        traces = loaded.path(data.traces)
        # A recipe may name a file next to itself or a shipped set; pass on a name that is no file.
        words = ["data", "check", str(traces) if traces.exists() else data.traces]
        if items != "none":
            words += ["--against", str(loaded.path(items)) if loaded.path(items).exists() else items]
        commands.append(" ".join(["workings", *words]))
        try:
            checked = asked(words)
        except RequestError as error:  # generated data, such as `addition`, is no file to check
            problem = str(error)
    return DataAnswer(recipe=recipe, commands=commands, preview=preview, check=checked, check_problem=problem)


def _preview(site: Site, recipe: str, file: Path) -> RedirectResponse:
    """To the page of a file's rows."""
    words = f"data.traces={file.relative_to(site.folder.root.resolve()).as_posix()}"
    return RedirectResponse("/data?" + urlencode({"recipe": recipe, "overrides": words}), 303)


def router(site: Site) -> APIRouter:
    """Routes of the data page."""
    routes = APIRouter()

    @routes.get("/api/data")
    def data_json(recipe: str, row: str = "", check: bool = False, overrides: str = "") -> DataAnswer:
        """Rows of a recipe with each token's text and whether it is learned; lengths; optionally the check."""
        return looked_at(site, recipe, row, check, override_words(overrides))

    @routes.post("/data/upload", include_in_schema=False)
    def upload(file: UploadFile, recipe: Annotated[str, Form()]) -> RedirectResponse:
        place = free_file(site.folder, file.filename or "")
        with place.open("xb") as out:
            shutil.copyfileobj(file.file, out)
        return _preview(site, recipe, place)

    @routes.post("/data/map", include_in_schema=False)
    def map_keys(recipe: Annotated[str, Form()], file: Annotated[str, Form()],
                 keys: Annotated[str, Form()]) -> RedirectResponse:
        source = site.folder.inside(file)
        place = free_file(site.folder, f"{source.stem}.traces.jsonl")
        ask(["data", "import", str(source), f"--map={keys.replace(' ', '')}", "--out", str(place)], site.folder.root)
        return _preview(site, recipe, place)

    @routes.get("/data", include_in_schema=False)
    def data_page(recipe: str = FIRST_RECIPE, row: str = "", check: bool = False, overrides: str = "") -> HTMLResponse:
        look, problem = None, None
        file = next((value for key, _, value in (line.strip().partition("=") for line in overrides.splitlines())
                     if key == "data.traces"), "")
        try:
            look = looked_at(site, recipe, row, check, override_words(overrides))
        # Shown next to the form, which keeps what was typed.
        except RequestError as error:
            problem = error
        return site.html("data.html.jinja", 422 if problem else 200, page="data", found=look, recipe=recipe, row=row,
                         check=check, problem=problem, overrides=overrides, file=file,
                         shipped=list(shipped_recipes()), written=recipe_files(site.folder))

    return routes
