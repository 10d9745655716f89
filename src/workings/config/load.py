"""From a file or a shipped name, plus ``key=value`` overrides, to a checked `Recipe`."""

import difflib
import json
import types
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from workings.config.aliases import rename
from workings.config.recipe import Recipe
from workings.config.section import AS_WRITTEN, REFUSED
from workings.config.yaml_reader import parse_yaml
from workings.errors import RequestError


@dataclass(frozen=True, kw_only=True)
class LoadedRecipe:
    """A recipe together with how it was written."""

    recipe: Recipe
    text: str
    """The file as it was written, comments included."""
    origin: str
    """The file's name, or ``shipped:<name>``."""
    base: Path
    """Directory that relative paths in the recipe start from."""
    overrides: tuple[str, ...]
    """The ``key=value`` words of the command line."""
    renamed: tuple[str, ...] = ()
    """What was written in another trainer's words, and what it is called here."""
    chosen: tuple[str, ...] = ()
    """What the recipe left to us, and what was chosen, with the reason."""
    kept: tuple[str, ...] = ()
    """Files that exist for this run alone: their places in the run directory, which keeps a copy. `base` is then the
    folder `config` of a folder that is laid out as the run directory is."""

    @property
    def is_file(self) -> bool:
        """Whether it was read from a file or shipped; else it was given in Python, and the run keeps its only copy."""
        return self.origin != GIVEN

    def resolved(self) -> dict[str, Any]:
        """Every key with its value, defaults included, as JSON values; the home folder is written as `~`.

        Paths keep their meaning (`path` expands `~`), and a record that is published does not name its maker's folders.
        """
        return _without_home(self.recipe.model_dump(mode="json"))

    def written(self) -> str:
        """The recipe as YAML: the file as it was written, or, with overrides, its keys as they then are."""
        if not self.overrides:
            return self.text
        # Only keys that were given: a file with every default would hide what was asked for.
        values = self.recipe.model_dump(mode="json", exclude_unset=True)
        return f"# {self.origin} with {' '.join(self.overrides)}\n" + _dump(values)

    def path(self, name: str) -> Path:
        """A path that the recipe names, seen from the recipe's directory."""
        # An absolute path replaces the recipe's directory in the join.
        return (self.base / Path(name).expanduser()).resolve()


def _dump(values: Mapping[str, Any]) -> str:
    """Sections and keys as YAML."""
    return yaml.safe_dump(dict(values), sort_keys=False, allow_unicode=True)


def _flow(value: Any) -> str:
    """A value as it is written in an override."""
    if isinstance(value, Path):
        value = str(value)
    # A text that YAML would read as something else (`1e-3`, `true`) is put in quotes; JSON is YAML.
    try:
        return value if isinstance(value, str) and parse_yaml(value, "an override") == value else json.dumps(value)
    except RequestError:
        return json.dumps(value)


def shipped_recipes() -> dict[str, str]:
    """Text of every recipe that comes with the package, by name."""
    folder = resources.files("workings.config") / "recipes"
    return {entry.name.removesuffix(".yaml"): entry.read_text("utf-8")
            for entry in sorted(folder.iterdir(), key=lambda entry: entry.name) if entry.name.endswith(".yaml")}


RecipeLike = str | Path | Mapping[str, Any] | LoadedRecipe
"""A file, the name of a shipped recipe, sections and keys as a dict, or a recipe that is loaded already."""
Overrides = Sequence[str] | Mapping[str, Any]
"""``key=value`` words, or dotted keys with their values."""
GIVEN = "the recipe given in Python"
"""Origin of a recipe that is no file."""


def load_recipe(name: RecipeLike, overrides: Overrides = ()) -> LoadedRecipe:
    """Read, override, check; a recipe that is loaded already stays as it is, and ``overrides`` count for nothing.

    Raises `RequestError` for anything that is not a recipe, and for a key that decides nothing.
    """
    if isinstance(name, LoadedRecipe):
        return name
    if isinstance(overrides, Mapping):
        overrides = [f"{key}={_flow(value)}" for key, value in overrides.items()]
    text, origin, base = (_dump(name), GIVEN, Path.cwd()) if isinstance(name, Mapping) else _find(str(name))
    values = parse_yaml(text, origin)
    if not isinstance(values, dict):
        raise RequestError(f"{origin}: {type(values).__name__}", "a mapping of recipe keys",
                           "workings recipes show smoke-tiny")
    # Before the overrides, which are written in our words alone.
    renamed = rename(values, frozenset(Recipe.model_fields), origin)
    for override in overrides:
        _apply(values, override)
    return LoadedRecipe(recipe=check_recipe(values, origin, as_written=True), text=text, origin=origin, base=base,
                        overrides=tuple(overrides), renamed=tuple(renamed))


def check_recipe(values: dict[str, Any], origin: str, *, as_written: bool = False) -> Recipe:
    """A recipe from plain values. Raises one `RequestError` that names every wrong key.

    Args:
        values: sections and keys.
        origin: where they come from, for messages.
        as_written: a person wrote these keys, so one that decides nothing is refused. Otherwise all keys may be there.
    """
    try:
        return Recipe.model_validate(values, context=AS_WRITTEN if as_written else None)
    except ValidationError as error:
        raise _explain(error.errors(include_url=False), origin) from None


def _find(name: str) -> tuple[str, str, Path]:
    path = Path(name).expanduser()
    if path.is_file():
        try:
            # Editors on Windows put a byte order mark in front, which would become part of the first key.
            return path.read_text("utf-8-sig"), str(path), path.resolve().parent
        except (UnicodeDecodeError, OSError) as error:
            raise RequestError(f"{path}: {error}", "a readable UTF-8 file") from None
    shipped = shipped_recipes()
    if name in shipped:
        return shipped[name], f"shipped:{name}", Path.cwd()
    near = difflib.get_close_matches(name, shipped, n=1)
    raise RequestError(f"recipe {name!r}", "a YAML file, or a shipped recipe: " + ", ".join(shipped),
                       f"workings recipes show {near[0]}" if near else "workings recipes list")


def _apply(values: dict[str, Any], override: str) -> None:
    """Set one dotted key in place."""
    key, equals, written = override.partition("=")
    if not equals or not key:
        raise RequestError(override, "an override of the form key=value", "e.g. training.steps=100")
    *parents, last = key.split(".")
    here = values
    for parent in parents:
        inner = here.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise RequestError(override, f"`{parent}` to be a section; it is {inner!r}", "leave out the part after it")
        here = inner
    # The value is read as in a file, so `[]`, `true` and `1e-3` mean the same in both.
    here[last] = parse_yaml(written, f"override {override!r}")


def _explain(errors: list[ErrorDetails], origin: str) -> RequestError:
    given, expected, hints = [], [], []
    for error in _without_union_noise(errors):
        location = _location(error)
        dotted = ".".join(location) or "the recipe"
        if error["type"] == REFUSED:
            given.append(error["ctx"]["given"])
            expected.append(error["ctx"]["expected"])
            hints.append(error["ctx"]["try_next"])
        elif error["type"] == "extra_forbidden":
            given.append(f"{dotted}: {_short(error['input'])}")
            expected.append(f"no key `{dotted}`")
            hints.append(_did_you_mean(location))
        elif error["type"] == "missing":
            given.append(f"no `{dotted}`")
            expected.append(f"`{dotted}`" + _described(location))
        else:
            given.append(f"{dotted}: {_short(error['input'])}")
            # pydantic puts these words in front of what a validator of ours says.
            expected.append(f"{dotted}: {error['msg'].removeprefix('Value error, ')}" + _described(location))
    hints = [hint for hint in hints if hint] or ["workings recipes show smoke-tiny"]
    return RequestError(*("\n          ".join(lines) for lines in ([*given, f"in {origin}"], expected, hints)))


def _without_union_noise(errors: list[ErrorDetails]) -> list[ErrorDetails]:
    """pydantic reports every member of a union; only the members that the value comes near to say something."""
    deeper = {tuple(error["loc"][:length]) for error in errors for length in range(len(error["loc"]) - 1)}
    return [error for error in errors
            if not (error["type"] in ("string_type", "model_type") and tuple(error["loc"][:-1]) in deeper)]


def _location(error: ErrorDetails) -> tuple[str, ...]:
    """The dotted place of an error, without the names pydantic gives to the members of a union."""
    known = {name for section in _sections(Recipe) for name in section.model_fields}
    parts = [str(part) for part in error["loc"]]
    # A key that does not exist is in no section, and yet has to be named.
    keep = [part for index, part in enumerate(parts)
            if part in known or part.isdigit() or (index == len(parts) - 1 and error["type"] == "extra_forbidden")]
    return tuple(keep)


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "…"


def section_at(location: Sequence[str]) -> list[type[BaseModel]]:
    """The section classes that may stand at a dotted place (several for a union)."""
    here: list[type[BaseModel]] = [Recipe]
    # The number of an entry in a list stands between the list's name and the entry's keys.
    for part in (part for part in location if not part.isdigit()):
        here = [inner for section in here if part in section.model_fields
                for inner in _models_in(section.model_fields[part].annotation)]
    return here


def _did_you_mean(location: tuple[str, ...]) -> str:
    *parents, last = location
    siblings = {name for section in section_at(parents) for name in section.model_fields}
    if last in siblings:
        # The section that was chosen does not have it, and another choice does.
        others = [choice for section in section_at(parents) if last in section.model_fields
                  for choice in _choice(section)]
        return f"`{'.'.join(location)}` goes with {' or '.join(f'`{other}`' for other in others)}"
    near = difflib.get_close_matches(last, sorted(siblings), n=1, cutoff=0.5)
    if near:
        return f"did you mean `{'.'.join([*parents, near[0]])}`?"
    # Right key, wrong section.
    elsewhere = [dotted for dotted in known_keys() if dotted.split(".")[-1] == last]
    if elsewhere:
        return f"did you mean `{elsewhere[0]}`?"
    return f"keys there: {', '.join(sorted(siblings))}" if siblings else ""


def _choice(section: type[BaseModel]) -> list[str]:
    """``name: grpo`` for a section that a required literal tells apart from its siblings."""
    return [f"{name}: {typing.get_args(field.annotation)[0]}" for name, field in section.model_fields.items()
            if typing.get_origin(field.annotation) is typing.Literal and field.is_required()]


def _described(location: Sequence[str]) -> str:
    for section in section_at(location[:-1]):
        if location and location[-1] in section.model_fields:
            return f" ({section.model_fields[location[-1]].description})"
    return ""


def known_keys() -> list[str]:
    """Dotted names of all keys that a recipe can have, in the order of definition."""
    def walk(section: type[BaseModel], prefix: str) -> Iterator[str]:
        for name, field in section.model_fields.items():
            inner = list(_models_in(field.annotation))
            for model in inner:
                yield from walk(model, f"{prefix}{name}.")
            # A union of sections and a plain value (`model.shape`: numbers or a name) is also a key by itself.
            if not inner or len(inner) < len(typing.get_args(field.annotation)):
                yield f"{prefix}{name}"
    return list(dict.fromkeys(walk(Recipe, "")))


def _sections(section: type[BaseModel]) -> Iterator[type[BaseModel]]:
    yield section
    for field in section.model_fields.values():
        for inner in _models_in(field.annotation):
            yield from _sections(inner)


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    """The section classes inside a type: itself, members of a union, what is annotated."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif typing.get_origin(annotation) in (typing.Union, types.UnionType, typing.Annotated, tuple):
        for inner in typing.get_args(annotation):
            yield from _models_in(inner)


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
    # With the slash, because `/home/anna` does not lie in `/home/ann`; a home of `/` would be in every path.
    if isinstance(value, str) and len(home) > 1 and (value + "/").startswith(home + "/"):
        return "~" + value[len(home):]
    return value
