"""Files and folders that a recipe names."""

import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

KEYS = (("data", "traces"), ("evaluation", "traces"), ("evaluation", "items"), ("model", "id"),
        ("algorithm", "teacher"), ("", "tokenizer"))
"""Section and key of everything in a recipe that may be a file or a folder, but for the files of rewards."""
MARKS = ("config.json", "tokenizer.json", "SEAL.json")
"""One of these lies in a folder that a recipe can name: weights, a tokenizer, a run."""


def recipe_paths(values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Of everything in a recipe that may be a file or a folder: its section, its key, and the name there."""
    for section, key in KEYS:
        part = values.get(section, {}) if section else values
        name = part.get(key) if isinstance(part, Mapping) else None
        if isinstance(name, str):
            yield section, key, name


def with_changed_paths(values: Mapping[str, Any], change: Callable[[str], str]) -> dict[str, Any]:
    """Sections and keys with every relative name of a file or folder changed, those of rewards included.

    Args:
        values: all keys of a recipe, or some of them.
        change: gives the name to write for the one that stands there.
    """
    moved = {key: dict(value) if isinstance(value, Mapping) else value for key, value in values.items()}
    for section, key, name in recipe_paths(values):
        if _is_relative(name):
            (moved[section] if section else moved)[key] = change(name)
    if isinstance(rewards := values.get("rewards"), list):
        moved["rewards"] = [_moved_reward(reward, change) for reward in rewards]
    return moved


def is_data_or_model_path(path: Path) -> bool:
    """Whether something lies there that a recipe can name; a folder may be called like a data set by chance."""
    return path.is_file() or any((path / mark).is_file() for mark in MARKS)


def relative_path(path: Path, folder: Path) -> str:
    """A path as seen from a folder; whole, where the way leads through a folder above the person's home.

    A relative path would name that home on its way down, and a record that is published must not.
    """
    path, folder = path.resolve(), folder.resolve()
    return str(path) if leads_above_home(path, folder) else Path(os.path.relpath(path, folder)).as_posix()


def leads_above_home(path: Path, folder: Path) -> bool:
    """Whether the way from one absolute place to the other leads through a folder above the person's home."""
    try:
        common = Path(os.path.commonpath([path, folder]))
    except ValueError:  # two drives of Windows have nothing in common
        return True
    return common in Path.home().resolve().parents or common == Path("/")


def _is_relative(name: str) -> bool:
    return not (Path(name).is_absolute() or name.startswith("~") or "://" in name)


def _moved_reward(reward: Any, change: Callable[[str], str]) -> Any:
    scorer = reward.get("scorer") if isinstance(reward, Mapping) else None
    if not isinstance(scorer, str) or ".py:" not in scorer:
        return reward
    file, _, function = scorer.rpartition(":")
    return {**reward, "scorer": f"{change(file)}:{function}" if _is_relative(file) else scorer}
