"""Keys of other trainers, accepted in a recipe and renamed to ours, so that a file can be moved over line by line.

The table is `aliases.json`; a test checks that every name on our side exists. A key that has no counterpart is refused
with what to do instead: a setting that looks taken over and is not would be worse than an error.
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


def rename(values: dict[str, Any], known: frozenset[str], origin: str) -> list[str]:
    """Rename foreign top-level keys in place.

    Args:
        values: a recipe as read.
        known: our own top-level keys, which are never taken for foreign ones.
        origin: the file, for messages.

    Returns:
        A line for each renamed key, for the person and the record.

    Raises:
        RequestError: a key without counterpart, or one whose counterpart is written as well.
    """
    notes = []
    # A list first, because keys are taken out on the way.
    for alias in [key for key in values if key in table() and key not in known]:
        row = table()[alias]
        source = f"`{alias}` ({', '.join(row['from'])})"
        if "instead" in row:
            raise RequestError(f"{source} in {origin}", "keys that have a counterpart here", row["instead"])
        value = values.pop(alias)
        # Keys of a JSON table are texts, so true and false are looked up as JSON writes them.
        translated = row.get("values", {}).get(json.dumps(value) if isinstance(value, bool) else value, value)
        for key, inner in {row["key"]: translated, **row.get("sets", {})}.items():
            _set(values, key, inner, source, origin)
        notes.append(f"{source} is `{row['key']}: {translated}` here")
    return notes


def _set(values: dict[str, Any], dotted: str, value: Any, source: str, origin: str) -> None:
    # All keys of ours that have an alias lie in a section, one level deep.
    section, key = dotted.split(".")
    inside = values.setdefault(section, {})
    if not isinstance(inside, dict):
        raise RequestError(f"{source} and `{section}: {inside!r}` in {origin}", f"`{section}` to be a section",
                           f"write `{dotted}: {value}` and leave the other out")
    # The same value under both names contradicts nothing.
    if inside.get(key, value) != value:
        raise RequestError(f"{source} and `{dotted}: {inside[key]!r}` in {origin}", "one of the two",
                           f"leave {source} out")
    inside[key] = value
