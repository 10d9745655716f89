"""`/data`: rows of a recipe as the model will see them, and what `data check` finds in its traces."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from fastapi import APIRouter
from fastapi.responses import HTMLResponse

from workings.config.load import load_recipe
from workings.errors import RequestError
from workings.ui.jobs import ask
from workings.ui.requests import FIRST_RECIPE, override_words, recipe_argument, recipe_choices
from workings.ui.site import Site

ROWS_SHOWN = 8
"""Rows of a page; each token is an element, and a row may have thousands."""


def looked_at(site: Site, recipe: str, row: str, check: bool, overrides: list[str]) -> dict[str, Any]:
    """The results of `data preview` and, with ``check``, of `data check`, or why that was impossible."""
    recipe_path = recipe_argument(site.folder, recipe)
    loaded = load_recipe(recipe_path, overrides)
    if not Path(recipe_path).is_file():  # a shipped recipe's files are in the folder
        loaded = replace(loaded, base=site.folder.root)

    def named(name: str) -> str:
        """A file as an argument: next to the recipe, or a shipped set's name."""
        return str(loaded.path(name)) if loaded.path(name).exists() else name

    preview_words = ["data", "preview", recipe_path, *overrides, "--n", str(ROWS_SHOWN)]
    if row:
        preview_words += ["--row", row]
    commands = [preview_words]
    preview, checked, problem = ask(preview_words, site.folder.root), {}, ""
    if check:
        check_words = ["data", "check", named(loaded.recipe.data.traces)]
        if loaded.recipe.evaluation.items != "none":
            check_words += ["--against", named(loaded.recipe.evaluation.items)]
        commands.append(check_words)
        try:
            checked = ask(check_words, site.folder.root)
        except RequestError as error:  # generated data, such as `addition`, is no file to check
            problem = str(error)
    return {"recipe": recipe, "commands": [" ".join(["workings", *words]) for words in commands], "preview": preview,
            "check": checked, "check_problem": problem}


def router(site: Site) -> APIRouter:
    """Routes of the data page."""
    routes = APIRouter()

    @routes.get("/data", include_in_schema=False)
    def data_page(recipe: str = FIRST_RECIPE, row: str = "", check: bool = False, overrides: str = "") -> HTMLResponse:
        look, problem = None, None
        try:
            look = looked_at(site, recipe, row, check, override_words(overrides))
        except RequestError as error:
            problem = error
        return site.html("data.html.jinja", 422 if problem else 200, page="data", found=look, recipe=recipe, row=row,
                         check=check, problem=problem, overrides=overrides, **recipe_choices(site.folder))

    return routes
