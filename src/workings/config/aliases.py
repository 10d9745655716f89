"""Renames keys of other trainers in a recipe, so that their configuration can be copied line by line.

For example TRL's ``per_device_train_batch_size: 4`` becomes ``batch.micro_batch: 4``. `aliases.json` lists all keys. A
key without a counterpart is refused with a proposal, because a silently ignored setting is worse than an error.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from workings.errors import RequestError


@cache
def table() -> dict[str, dict[str, Any]]:
    """Rows of `aliases.json` by alias: ``from`` (trainers), and ``key`` (with ``values``, ``sets``) or ``instead``."""
    text = files("workings.config").joinpath("aliases.json").read_text(encoding="utf-8")
    return {row["alias"]: row for row in json.loads(text)["aliases"]}


def counterpart(word: str) -> str:
    """What to write here for another trainer's key (`lora_r`) or switch (`dora` of `use_dora`); else an empty text."""
    row = table().get(word) or table().get(f"use_{word}")
    if row is None:
        return ""
    if "instead" in row:
        return str(row["instead"])
    return f"{_source(row)} is `{row['key']}` here"


def rename(values: dict[str, Any], known: frozenset[str], origin: str) -> tuple[list[str], list[RequestError]]:
    """Renames other trainers' top-level keys in place, except ``known`` ones; removes those without a counterpart.

    Returns a line for each key with a counterpart, for the user and the record; and an error for each key without one,
    or that contradicts another key.
    """
    notes: list[str] = []
    errors: list[RequestError] = []
    implied: dict[str, Any] = {}  # by dotted key
    for alias in [key for key in values if key in table() and key not in known]:
        row, value = table()[alias], values.pop(alias)
        source = _source(row)
        if "instead" in row:
            errors.append(RequestError(f"{source} in {origin} has no counterpart here",
                                       "keys with a counterpart here", row["instead"]))
            continue
        sets = row.get("sets", {})
        # Keys of a JSON table are texts, so the table has `true`, `false` and numbers as JSON writes them.
        written = value if isinstance(value, str) else json.dumps(value, default=str)
        translated = row.get("values", {}).get(written, value)
        # `use_peft: false` is `method.name: full`, and implies no adapters.
        if translated != "full":
            implied |= sets
        # `use_peft: true` has no value here: it only implies that there are adapters.
        if translated == "":
            meaning = ", ".join(f"`{key}: {implied_value}`" for key, implied_value in sets.items()) or "the default"
            notes.append(f"{source} is {meaning} here")
            continue
        notes.append(f"{source} is `{row['key']}: {translated}` here")
        try:
            _set(values, row["key"], translated, source, origin)
        except RequestError as error:
            errors.append(error)
    # Last, because written keys take precedence: `lora_r` implies LoRA, unless `load_in_4bit` asks for QLoRA.
    for dotted, value in implied.items():
        section, key = dotted.split(".")
        keys = values.setdefault(section, {})
        if isinstance(keys, dict):
            keys.setdefault(key, value)
    return notes, errors


def _source(row: dict[str, Any]) -> str:
    return f"`{row['alias']}` ({', '.join(row['from'])})"


def _set(values: dict[str, Any], dotted: str, value: Any, source: str, origin: str) -> None:
    """Sets a key of a section in place. Raises `RequestError` if it has another value already."""
    section, key = dotted.split(".")
    keys = values.setdefault(section, {})
    if not isinstance(keys, dict):
        raise RequestError(f"{source} and `{section}: {keys!r}` contradict each other in {origin}",
                           f"`{section}` to be a section", f"write `{dotted}: {value}` and leave the other out")
    if keys.get(key, value) != value:
        raise RequestError(f"{source} and `{dotted}: {keys[key]!r}` contradict each other in {origin}",
                           "one of the two", f"leave {source} out")
    keys[key] = value
