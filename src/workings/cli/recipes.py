"""`workings recipes`: list, show and copy the recipes that ship with the package."""

import json
from pathlib import Path
from typing import Annotated

import typer

from workings.cli.options import Plain, Verb
from workings.cli.output import answer
from workings.errors import RequestError

recipes_app = typer.Typer(help="Recipes that ship with the package.", no_args_is_help=True, rich_markup_mode=None)
NameArgument = Annotated[str, typer.Argument(help="A shipped recipe.")]


def _find(name: str) -> str:
    from workings.config.load import shipped_recipes

    shipped = shipped_recipes()
    if name not in shipped:
        raise RequestError(f"there is no recipe {name!r}", "one of " + ", ".join(shipped), "workings recipes list")
    return shipped[name]


@recipes_app.command("list", cls=Verb)
def list_command() -> None:
    """Names of the shipped recipes, with the first line of each."""
    from workings.config.load import shipped_recipes

    firsts = {name: text.splitlines()[0].removeprefix("# ") for name, text in shipped_recipes().items()}
    width = max(map(len, firsts))
    answer({"recipes": firsts}, "\n".join(f"{name:<{width}}  {first}" for name, first in firsts.items()))


@recipes_app.command("show", cls=Verb)
def show_command(name: NameArgument) -> None:
    """Print a shipped recipe with its comments."""
    text = _find(name)
    answer({"name": name, "text": text}, text.rstrip("\n"))


@recipes_app.command("copy", cls=Verb)
def copy_command(
    name: NameArgument,
    target: Annotated[Path, typer.Argument(help="File to write; it must not exist.")],
) -> None:
    """Copy a shipped recipe to a file."""
    text = _find(name)
    try:
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        problem = "already exists" if isinstance(error, FileExistsError) else f"cannot be written: {error.strerror}"
        raise RequestError(f"{target} {problem}", "a file that does not exist yet, in a folder that can be written",
                           "another name or folder") from None
    answer({"written": str(target)}, f"written: {target}")


@recipes_app.command("schema", cls=Plain)
def schema_command() -> None:
    """Print the JSON schema of a recipe, for editors."""
    from workings.config.load import recipe_schema

    typer.echo(json.dumps(recipe_schema(), indent=2))
