"""Overrides: ``key=value`` words of a command line, or dotted keys with their values in Python."""

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from workings.config.recipe_paths import is_data_or_model_path, relative_path, with_changed_paths
from workings.config.yaml_reader import parse_yaml
from workings.errors import RequestError

Overrides = Sequence[str] | Mapping[str, Any]
"""``key=value`` words, or dotted keys with their values."""


def override_words(overrides: Overrides) -> list[str]:
    """Overrides as ``key=value`` words. Raises `RequestError` for a single text, and as `refuse_value`."""
    if isinstance(overrides, str) or not isinstance(overrides, Sequence | Mapping):
        raise RequestError(f"overrides cannot be {overrides!r}", "a dict, or a list of key=value words",
                           f"overrides=[{overrides!r}]")
    if not isinstance(overrides, Mapping):
        return list(overrides)
    return [f"{key}={flow(value)}" for key, value in overrides.items()]


def flow(value: Any) -> str:
    """A value as text of an override. A text that YAML would read as another type (`1e-3`, `true`) is quoted."""
    if isinstance(value, Path):
        value = str(value)
    try:
        is_plain = isinstance(value, str) and parse_yaml(value, "an override") == value
    except RequestError:
        is_plain = False
    # JSON is YAML.
    return str(value) if is_plain else json.dumps(value, sort_keys=True, default=refuse_value)


def apply_override(values: dict[str, Any], override: str) -> None:
    """Sets the key of an override in place. Raises `RequestError` for a malformed one, and as `set_key`."""
    key, equals, written = override.partition("=")
    if not equals or not key:
        raise RequestError(f"the override {override} is not of the form key=value", "a key and a value",
                           "e.g. training.steps=100")
    # The value is read as in a file, so `[]`, `true` and `1e-3` mean the same in both.
    set_key(values, key, parse_yaml(written, f"override {override!r}"), override)


def seen_from(base: Path, override: str) -> str:
    """An override with paths of the current folder made relative to the recipe's folder."""
    key, equals, _ = override.partition("=")
    # A malformed override is reported later, with the recipe's name.
    if not equals or not key or base.resolve() == Path.cwd().resolve():
        return override

    def change(name: str) -> str:
        # Two different files may have this name, here and next to the recipe.
        typed_path, recipe_path = Path(name).absolute(), base / name
        if not is_data_or_model_path(typed_path):
            return name
        relative = relative_path(typed_path, base)
        if is_data_or_model_path(recipe_path) and not recipe_path.samefile(typed_path):
            raise RequestError(f"the override {override} names two files, one here and one in {base}", "one file",
                               f"{relative} for the one here, {recipe_path} for the other")
        return relative

    return moved_override(override, change)


def moved_override(override: str, change: Callable[[str], str]) -> str:
    """An override with its relative paths changed, if it has any. Raises `RequestError` if it cannot be read."""
    values: dict[str, Any] = {}
    apply_override(values, override)
    moved: Any = with_changed_paths(values, change)
    # Keep the typed spelling of an override without a path, because it is recorded.
    if moved == values:
        return override
    key = override.partition("=")[0]
    for part in key.split("."):
        moved = moved[part]
    return f"{key}={flow(moved)}"


def set_key(values: dict[str, Any], key: str, value: Any, given: str) -> None:
    """Sets a dotted key in place; null removes a key, which restores its default.

    Raises `RequestError`, which begins with ``given``, if a part is not a section.
    """
    *parents, last = key.split(".")
    here = values
    for parent in parents:
        inner = here.setdefault(parent, {})
        if not isinstance(inner, dict):
            raise RequestError(f"{given} needs a section `{parent}`, and that is {inner!r}", "a key of a section",
                               "leave out the part after it")
        here = inner
    if value is None and last in here:
        del here[last]
    else:
        here[last] = value


def refuse_value(value: object) -> NoReturn:
    """Raises `RequestError` for a Python value that no recipe can hold, such as a function among the rewards."""
    if callable(value):
        name = getattr(value, "__name__", "function")
        raise RequestError(f"a recipe cannot hold the function {name}",
                           "FILE.py:FUNCTION: it runs in its own process, and its file's digest is recorded",
                           f'"rewards": [{{"scorer": "mine.py:{name}"}}]; or, without a recipe, the argument '
                           f"rewards=[{name}] of workings.train")
    raise RequestError(f"a recipe cannot hold a value of type {type(value).__name__}",
                       "texts, numbers, lists and dicts")
