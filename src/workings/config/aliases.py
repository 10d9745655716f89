"""Renames keys of other trainers in a recipe, so that their configuration can be copied line by line.

The table is `aliases.json`; a test checks that every target key exists. A key without a counterpart is refused with a
proposal, because a silently ignored setting is worse than an error.
"""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from workings.errors import RequestError


@cache
def table() -> dict[str, dict[str, Any]]:
    """Rows of `aliases.json` by alias: ``from``, and ``key`` (with ``values``, ``sets``) or ``instead``."""
    text = files("workings.config").joinpath("aliases.json").read_text(encoding="utf-8")
    return {row["alias"]: row for row in json.loads(text)["aliases"]}


def counterpart(word: str) -> str:
    """What to write here for another trainer's key, or for the method of a switch (`dora` of `use_dora`); else ""."""
    row = table().get(word) or table().get(f"use_{word}")
    if row is None or "instead" in row:
        return row["instead"] if row else ""
    return f"`{row['alias']}` ({', '.join(row['from'])}) is `{row['key']}` here"


def rename(values: dict[str, Any], known: frozenset[str], origin: str) -> tuple[list[str], list[RequestError]]:
    """Renames other trainers' top-level keys in place, but not ``known`` ones; removes those without a counterpart.

    Returns a line for each key with a counterpart, for the user and the record; and an error for each key without one,
    or that contradicts another key.
    """
    notes: list[str] = []
    refused: list[RequestError] = []
    implied: dict[str, Any] = {}
    for alias in [key for key in values if key in table() and key not in known]:
        row, value = table()[alias], values.pop(alias)
        source = f"`{alias}` ({', '.join(row['from'])})"
        # Keys of a JSON table are texts, so true, false and numbers are looked up as JSON writes them.
        translated = value if isinstance(value, list | dict) else row.get("values", {}).get(
            value if isinstance(value, str) else json.dumps(value), value)
        if "instead" in row:
            refused.append(RequestError(f"{source} in {origin} has no counterpart here",
                                        "keys with a counterpart here", row["instead"]))
            continue
        if translated != "full":
            implied |= row.get("sets", {})
        # Only implied, or the default: another key may set it.
        if translated == "":
            notes.append(f"{source} is " + (", ".join(f"`{key}: {set_}`" for key, set_ in row.get("sets", {}).items())
                                            or "the default") + " here")
            continue
        try:
            _set(values, row["key"], translated, source, origin)
        except RequestError as error:
            refused.append(error)
        notes.append(f"{source} is `{row['key']}: {translated}` here")
    # Last, if nothing else was written: `lora_r` means LoRA, unless weights are loaded in 4 bits.
    for key, value in implied.items():
        section, name = key.split(".")
        inside = values.setdefault(section, {})
        if isinstance(inside, dict):
            # Our keys take precedence over what another trainer's key implies.
            inside.setdefault(name, value)
    return notes, refused


def _set(values: dict[str, Any], dotted: str, value: Any, source: str, origin: str) -> None:
    # All keys with an alias are one level deep.
    section, key = dotted.split(".")
    inside = values.setdefault(section, {})
    if not isinstance(inside, dict):
        raise RequestError(f"{source} and `{section}: {inside!r}` contradict each other in {origin}",
                           f"`{section}` to be a section", f"write `{dotted}: {value}` and leave the other out")
    if inside.get(key, value) != value:
        raise RequestError(f"{source} and `{dotted}: {inside[key]!r}` contradict each other in {origin}",
                           "one of the two", f"leave {source} out")
    inside[key] = value
