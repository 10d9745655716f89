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
    """A recipe with its source."""

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
    """Files of this run only, by their paths in the run directory, which keeps a copy. `base` is then the folder
    `config` of a folder with the layout of a run directory."""

    @property
    def is_file(self) -> bool:
        """Whether it comes from a file or is shipped; a recipe given in Python exists only in the run."""
        return self.origin != GIVEN

    def resolved(self) -> dict[str, Any]:
        """Every key with its value, defaults included, as JSON values; the home folder is written as `~`.

        Paths keep their meaning (`path` expands `~`), and a record that is published does not name its maker's folders.
        """
        return _without_home(self.recipe.model_dump(mode="json"))

    def written(self) -> str:
        """The recipe as YAML: the file as written, or its keys after overrides."""
        if not self.overrides:
            return self.text
        values = self.recipe.model_dump(mode="json", exclude_unset=True)
        return f"# {self.origin} with {' '.join(self.overrides)}\n" + _dump(values)

    def path(self, name: str) -> Path:
        """Absolute path of a path in the recipe, which is relative to the recipe's folder."""
        return (self.base / Path(name).expanduser()).resolve()


def _dump(values: Mapping[str, Any]) -> str:
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
    """Reads a recipe, applies overrides and checks it. A loaded recipe is returned unchanged, without ``overrides``.

    A relative path in an override is searched in the current folder, then in the recipe's; in one that a run
    ``recorded``, it is a path from the recipe's folder.

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
    # Write and read a dict, so that it gets the same checks and messages as a file.
    text, origin, base = (_dump(name), GIVEN, Path.cwd()) if isinstance(name, Mapping) else _find(str(name))
    return parse_recipe(text, origin, base, words if recorded else [seen_from(base, word) for word in words])


def parse_recipe(text: str, origin: str, base: Path, overrides: Sequence[str] = ()) -> LoadedRecipe:
    """A recipe from its text. Arguments are those of `LoadedRecipe`; errors those of `load_recipe`."""
    values = parse_yaml(text, origin)
    if not isinstance(values, dict):
        raise RequestError(f"{origin} is not a mapping but {type(values).__name__}", "a mapping of recipe keys",
                           "workings recipes show smoke-tiny")
    # Before the overrides, which use only recipe keys.
    renamed, refused = rename(values, frozenset(Recipe.model_fields), origin)
    for override in overrides:
        apply_override(values, override)
    _one_length(values, overrides)
    try:
        # Combine with the errors of keys without a counterpart, which are removed from `values`.
        recipe = check_recipe(values, partial(_key_source, text, origin, overrides), as_written=True)
    except RequestError as wrong:
        raise together([*refused, wrong]) from None
    if refused:
        raise together(refused)
    return LoadedRecipe(recipe=recipe, text=text, origin=origin, base=base, overrides=tuple(overrides),
                        renamed=tuple(renamed))


def check_recipe(values: dict[str, Any], origin: str | KeySource, *, as_written: bool = False) -> Recipe:
    """A recipe from plain values. Raises one `RequestError` that names every wrong key.

    ``origin`` is their source for messages, or a function to that of each key. If they are ``as_written`` by a user, a
    key without effect is refused.
    """
    try:
        return Recipe.model_validate(values, context=AS_WRITTEN if as_written else None)
    except ValidationError as error:
        raise explain(error.errors(include_url=False), (lambda _: origin) if isinstance(origin, str) else origin
                      ) from None


def _key_source(text: str, origin: str, overrides: Sequence[str], location: tuple[str, ...]) -> str:
    """Source of a key: the override that set it or a section around it, or the file's line."""
    for override in reversed(overrides):
        key = tuple(override.partition("=")[0].split("."))
        # An override of one key is not the source of its siblings.
        if key == location[:len(key)]:
            return f"{OVERRIDE}{override}"
    places = key_lines(text) if origin != GIVEN else {}
    # An unknown section may exist only because of overrides of its keys.
    below = [override for override in overrides if override.startswith(".".join(location) + ".")]
    if location and below and location not in places:
        return f"{OVERRIDE}{below[-1]}"
    # A missing key has no line; its section has one.
    line = next((places[location[:end]] for end in range(len(location), 0, -1) if location[:end] in places), 0)
    return f"{origin}:{line}" if line else origin


def _find(name: str) -> tuple[str, str, Path]:
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
    near = difflib.get_close_matches(name, shipped, n=3)
    is_file = path.suffix in (".yaml", ".yml") or len(path.parts) > 1
    raise RequestError(f"there is no file {path.absolute()}" if is_file else f"there is no recipe {name!r}",
                       "a YAML file, or a shipped recipe" + (f": {', '.join(near)}" if near else ""),
                       f"workings recipes show {near[0]}" if near else "workings recipes list")


def _one_length(values: dict[str, Any], overrides: Sequence[str]) -> None:
    """Removes steps or epochs of the file if an override sets the other one."""
    given = {"training.steps", "training.epochs"} & {override.partition("=")[0] for override in overrides}
    training = values.get("training")
    if len(given) == 1 and isinstance(training, dict):
        training.pop("steps" if "training.epochs" in given else "epochs", None)


def recipe_schema() -> dict[str, Any]:
    """JSON schema of a recipe, for editors."""
    schema = Recipe.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "workings recipe", **schema}


def _without_home(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_home(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_without_home(inner) for inner in value]
    home = str(Path.home())
    # With the slash, because `/home/anna` is not in `/home/ann`; a home of `/` is in every path.
    if isinstance(value, str) and len(home) > 1 and (value + "/").startswith(home + "/"):
        return "~" + value[len(home):]
    return value
