"""Loads recipes: a file or a shipped name plus ``key=value`` overrides becomes a checked `Recipe`."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import resources
from pathlib import Path
from shlex import quote
from typing import Any

import yaml
from pydantic import ValidationError

from workings.config.aliases import rename
from workings.config.explain import GIVEN, OVERRIDE, KeySource, explain, together
from workings.config.overrides import Overrides, apply_override, override_words, refuse_value, seen_from
from workings.config.recipe import Recipe
from workings.config.section import AS_WRITTEN
from workings.config.yaml_reader import key_lines, parse_yaml
from workings.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class LoadedRecipe:
    """A checked recipe, and where it came from."""

    recipe: Recipe
    text: str
    """The file as written, with comments."""
    origin: str
    """The file's name, or ``shipped:<name>``."""
    base: Path
    """Directory that relative paths in the recipe start from."""
    overrides: tuple[str, ...]
    """The ``key=value`` words of the command line, with names of files as seen from `base`."""
    renamed: tuple[str, ...] = ()
    """A line for each key of another trainer, with its name here."""
    chosen: tuple[str, ...] = ()
    """A line for each automatic choice, with the reason."""
    kept: tuple[str, ...] = ()
    """Files that the run directory keeps a copy of, by their paths there. They are in a temporary folder with the
    layout of a run directory, and `base` is its folder `config`."""

    def resolved(self) -> dict[str, Any]:
        """Every key with its value, defaults included, as JSON values.

        The home folder is written as `~`, so that a published record does not name its maker; `path` expands it.
        """
        return _without_home(self.recipe.model_dump(mode="json"))

    def written(self) -> str:
        """The recipe as YAML: the file as written or, with overrides, the keys that file and overrides set."""
        if not self.overrides:
            return self.text
        values = self.recipe.model_dump(mode="json", exclude_unset=True)
        return f"# {self.origin} with {' '.join(self.overrides)}\n" + _dump(values)

    def path(self, name: str) -> Path:
        """Absolute path of a file that the recipe names; a relative name starts from the recipe's folder."""
        return (self.base / Path(name).expanduser()).resolve()


def _dump(values: Mapping[str, Any]) -> str:
    """A mapping as YAML. Raises `RequestError` for a value that no recipe can hold."""
    try:
        return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)
    except yaml.representer.RepresenterError as error:
        refuse_value(error.args[-1])


def shipped_recipes() -> dict[str, str]:
    """Text of every shipped recipe by name."""
    folder = resources.files("workings.config") / "recipes"
    return {entry.name.removesuffix(".yaml"): entry.read_text("utf-8")
            for entry in sorted(folder.iterdir(), key=lambda entry: entry.name) if entry.name.endswith(".yaml")}


RecipeLike = str | Path | Mapping[str, Any] | LoadedRecipe
"""A file, the name of a shipped recipe, sections and keys as a dict, or a loaded recipe."""
ROWS = (".jsonl", ".csv", ".parquet")
"""Suffixes of files with rows."""


def load_recipe(name: RecipeLike, overrides: Overrides = (), *, recorded: bool = False) -> LoadedRecipe:
    """Reads a recipe, applies overrides and checks it. A loaded recipe is returned as it is; its overrides stay.

    A relative path in an override is searched in the current folder, then in the recipe's. ``recorded``: the overrides
    are those of a run's record, whose paths start from the recipe's folder.

    Raises `RequestError` for anything that is not a recipe, for a key without effect, and for an override that names a
    file both here and in the recipe's folder.
    """
    if isinstance(name, LoadedRecipe):
        return name
    words = override_words(overrides)
    if not isinstance(name, str | Path | Mapping):
        raise RequestError(f"a recipe cannot be of type {type(name).__name__}",
                           "a file, a shipped recipe's name, or a dict",
                           "rows and a model go by name: workings.train(model=…, data=rows, steps=100)")
    # A dict is written and read, so that it gets the same checks and messages as a file.
    text, origin, base = (_dump(name), GIVEN, Path.cwd()) if isinstance(name, Mapping) else _find(str(name))
    return parse_recipe(text, origin, base, words if recorded else [seen_from(base, word) for word in words])


def parse_recipe(text: str, origin: str, base: Path, overrides: Sequence[str] = ()) -> LoadedRecipe:
    """A recipe from its YAML text. Arguments are as in `LoadedRecipe`, and errors as in `load_recipe`."""
    values = parse_yaml(text, origin)
    if not isinstance(values, dict):
        raise RequestError(f"{origin} is not a mapping but {type(values).__name__}", "a mapping of recipe keys",
                           "workings recipes show smoke-tiny")
    # First, because overrides use only keys of recipes.
    renamed, without_counterpart = rename(values, frozenset(Recipe.model_fields), origin)
    for override in overrides:
        apply_override(values, override)
    # Overridden steps replace the file's epochs, and overridden epochs its steps.
    overridden = {"training.steps", "training.epochs"} & {override.partition("=")[0] for override in overrides}
    if len(overridden) == 1 and isinstance(values.get("training"), dict):
        values["training"].pop("steps" if "training.epochs" in overridden else "epochs", None)
    # All errors are reported at once.
    try:
        recipe = check_recipe(values, partial(_key_source, text, origin, overrides), as_written=True)
    except RequestError as wrong:
        raise together([*without_counterpart, wrong]) from None
    if without_counterpart:
        raise together(without_counterpart)
    return LoadedRecipe(recipe=recipe, text=text, origin=origin, base=base, overrides=tuple(overrides),
                        renamed=tuple(renamed))


def check_recipe(values: dict[str, Any], origin: str | KeySource, *, as_written: bool = False) -> Recipe:
    """A recipe from plain values. Raises one `RequestError` that names every wrong key.

    ``origin``: the source of the values for messages, or a function that gives the source of each key. ``as_written``:
    a user wrote the values, so a key without effect is refused.
    """
    source = (lambda _: origin) if isinstance(origin, str) else origin
    try:
        return Recipe.model_validate(values, context=AS_WRITTEN if as_written else None)
    except ValidationError as error:
        raise explain(error.errors(include_url=False), source) from None


def _key_source(text: str, origin: str, overrides: Sequence[str], location: tuple[str, ...]) -> str:
    """Source of a key: the override that set it or a section around it, or the line of the file: `recipe.yaml:12`."""
    for override in reversed(overrides):
        overridden = tuple(override.partition("=")[0].split("."))
        if overridden == location[:len(overridden)]:
            return f"{OVERRIDE}{override}"
    lines = key_lines(text) if origin != GIVEN else {}
    # An unknown section may exist only because of overrides of its keys.
    below = [override for override in overrides if override.startswith(".".join(location) + ".")]
    if location and below and location not in lines:
        return f"{OVERRIDE}{below[-1]}"
    # A missing key has no line, but a section around it has one.
    for end in range(len(location), 0, -1):
        if location[:end] in lines:
            return f"{origin}:{lines[location[:end]]}"
    return origin


def _find(name: str) -> tuple[str, str, Path]:
    """Text, origin and base of a recipe, as in `LoadedRecipe`. Raises `RequestError` if there is none of this name."""
    path = Path(name).expanduser()
    if path.is_file():
        if path.suffix in ROWS:
            raise RequestError(f"{path} holds rows", "a recipe; its key data.traces names a file of rows",
                               f"workings data check {quote(str(path))}, then workings train smoke-tiny "
                               f"{quote(f'data.traces={path}')}")
        try:
            # Editors on Windows write a byte order mark, which would become part of the first key.
            return path.read_text("utf-8-sig"), str(path), path.resolve().parent
        except (UnicodeDecodeError, OSError) as error:
            raise RequestError(f"{path} cannot be read: {error}", "a readable UTF-8 file") from None
    shipped = shipped_recipes()
    if name in shipped:
        return shipped[name], f"shipped:{name}", Path.cwd()
    looks_like_file = path.suffix in (".yaml", ".yml") or len(path.parts) > 1
    given = f"there is no file {path.absolute()}" if looks_like_file else f"there is no recipe {name!r}"
    near = difflib.get_close_matches(name, shipped, n=3)
    if near:
        raise RequestError(given, f"a YAML file, or a shipped recipe: {', '.join(near)}",
                           f"workings recipes show {near[0]}")
    raise RequestError(given, "a YAML file, or a shipped recipe", "workings recipes list")


def recipe_schema() -> dict[str, Any]:
    """JSON schema of a recipe, for editors."""
    schema = Recipe.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "workings recipe", **schema}


def _without_home(value: Any) -> Any:
    """JSON values with `~` in place of the home folder at the beginning of a text."""
    if isinstance(value, dict):
        return {key: _without_home(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_home(inner) for inner in value]
    home = str(Path.home())
    # With the slash, because `/home/anna` is not in `/home/ann`; a home of `/` is in every path.
    if isinstance(value, str) and len(home) > 1 and (value + "/").startswith(home + "/"):
        return "~" + value[len(home):]
    return value
