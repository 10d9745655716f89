"""`workings recipes`: what ships with the package."""

import json
from pathlib import Path
from typing import Annotated

import typer

from workings.cli.output import JsonFlag, answer
from workings.errors import RequestError

recipes_app = typer.Typer(help="Recipes that ship with the package.", no_args_is_help=True, rich_markup_mode=None)


def _find(name: str) -> str:
    from workings.config.load import shipped_recipes

    shipped = shipped_recipes()
    if name not in shipped:
        raise RequestError(f"there is no recipe {name!r}", "one of " + ", ".join(shipped), "workings recipes list")
    return shipped[name]


@recipes_app.command("list")
def list_command(as_json: JsonFlag = False) -> None:
    """Names of the shipped recipes, with the first line of each."""
    from workings.config.load import shipped_recipes

    firsts = {name: text.splitlines()[0].removeprefix("# ") for name, text in shipped_recipes().items()}
    # Computed, because recipes change.
    width = max(len(name) for name in firsts)
    answer({"recipes": firsts}, as_json=as_json,
           text="\n".join(f"{name:<{width}}  {first}" for name, first in firsts.items()))


@recipes_app.command("show")
def show_command(name: Annotated[str, typer.Argument(help="A shipped recipe.")], as_json: JsonFlag = False) -> None:
    """Print a shipped recipe with its comments."""
    text = _find(name)
    answer({"name": name, "text": text}, as_json=as_json, text=text.rstrip("\n"))


@recipes_app.command("copy")
def copy_command(
    name: Annotated[str, typer.Argument(help="A shipped recipe.")],
    target: Annotated[Path, typer.Argument(help="File to write; it must not exist.")],
    as_json: JsonFlag = False,
) -> None:
    """Copy a shipped recipe to a file."""
    text = _find(name)
    try:
        # "x" tests and creates in one call, without a race.
        with target.open("x", encoding="utf-8") as file:
            file.write(text)
    except FileExistsError:
        raise RequestError(f"{target} already exists", "a file that does not exist yet", "another name") from None
    except OSError as error:
        raise RequestError(f"{target} cannot be written: {error.strerror}", "a path that can be written",
                           "another folder") from None
    answer({"written": str(target)}, as_json=as_json, text=f"written: {target}")


@recipes_app.command("schema")
def schema_command() -> None:
    """Print the JSON schema of a recipe, for editors."""
    from workings.config.load import recipe_schema

    typer.echo(json.dumps(recipe_schema(), indent=2))
