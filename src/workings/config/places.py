"""Files and folders that a recipe names."""

from collections.abc import Iterator, Mapping
from typing import Any

KEYS = (("data", "traces"), ("evaluation", "traces"), ("evaluation", "items"), ("model", "id"),
        ("algorithm", "teacher"), ("", "tokenizer"))
"""Section and key of everything in a recipe that may be a file or a folder."""


def named_places(values: Mapping[str, Any]) -> Iterator[tuple[str, str, str]]:
    """Of everything in a recipe that may be a file or a folder: its section, its key, and the name there."""
    for section, key in KEYS:
        name = (values.get(section, {}) if section else values).get(key)
        if isinstance(name, str):
            yield section, key, name
