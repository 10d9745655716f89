"""Paths of files and folders in a recipe."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from workings.config.section import own_code

KEYS = (("data", "traces"), ("evaluation", "traces"), ("evaluation", "items"), ("model", "id"),
        ("algorithm", "teacher"), ("", "tokenizer"))
"""Sections and keys that may name a file or a folder, except files of rewards. `tokenizer` is in no section."""
MARKS = ("config.json", "tokenizer.json", "SEAL.json")
"""Files by which a folder of weights, a tokenizer or a run is recognized."""


def recipe_paths(values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Section, key and value of everything in a recipe that may name a file or a folder."""
    for section, key in KEYS:
        # The recipe may be invalid: any section may have any type.
        part = values.get(section, {}) if section else values
        name = part.get(key) if isinstance(part, Mapping) else None
        if isinstance(name, str):
            yield section, key, name


def with_changed_paths(values: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """All keys of a recipe, or some, with every relative path changed, those of rewards included."""
    moved = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    for section, key, name in recipe_paths(values):
        if _is_relative(name):
            keys = moved[section] if section else moved
            keys[key] = change(name)
    if isinstance(values.get("rewards"), list):
        moved["rewards"] = [_moved_code(reward, "scorer", change) for reward in values["rewards"]]
    if "environment" in values:
        moved["environment"] = _moved_code(values["environment"], "name", change)
    return moved


def is_data_or_model_path(path: Path) -> bool:
    """Whether the path is a file, or a folder of weights, a tokenizer or a run.

    Any other folder may have a data set's name by chance.
    """
    return path.is_file() or any((path / mark).is_file() for mark in MARKS) or any(path.glob("*.gguf"))


def relative_path(path: Path, folder: Path) -> str:
    """Path relative to a folder; absolute if the relative path would pass through a folder above the home directory.

    Such a relative path would contain the user's name, which must not be published.
    """
    path, folder = path.resolve(), folder.resolve()
    return str(path) if leads_above_home(path, folder) else Path(os.path.relpath(path, folder)).as_posix()


def leads_above_home(path: Path, folder: Path) -> bool:
    """Whether the relative path between two absolute paths passes through a folder above the home directory."""
    try:
        common = Path(os.path.commonpath([path, folder]))
    except ValueError:  # two Windows drives have no common folder
        return True
    return common in Path.home().resolve().parents or common == Path("/")


def _is_relative(name: str) -> bool:
    return not (Path(name).is_absolute() or name.startswith("~") or "://" in name)


def _moved_code(entry: Any, key: str, change: Callable[[str], str]) -> Any:
    """A reward (``{"scorer": "mine.py:brevity"}``), an environment or its name, with the path of own code changed."""
    name = entry.get(key) if isinstance(entry, Mapping) else entry
    file, attribute = own_code(name) if isinstance(name, str) else ("", "")
    if not file or not _is_relative(file):
        return entry
    moved = f"{change(file)}:{attribute}"
    return {**entry, key: moved} if isinstance(entry, Mapping) else moved
