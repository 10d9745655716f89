"""Answers in JSON: the value of an object's answer, and the numbers of a list of named objects."""

import json
import re
from typing import Any

MAX_CHARACTERS = 20_000
"""Of the end of a text, where JSON is looked for."""
MAX_OBJECTS = 5
"""Last beginnings of an object that are tried: a formula in a string has braces of its own."""
_BEGINS = re.compile(r"\{\s*\"")
_KEYS = ("answer", "final_answer", "correct_answer", "choice", "correct_choice", "option", "result")
"""Names of the answer, in lower case, from the plainest to the vaguest."""


def json_answer(text: str) -> str:
    """The answer of a JSON object with which a text ends, in a fence of code or without one; "" where it has none.

    >>> json_answer('{"reason": "It has 88 keys.", "answer": "C"}'), json_answer('{"a": 5}'), json_answer("5")
    ('C', '', '')
    """
    end = text[-MAX_CHARACTERS:].strip().removesuffix("```").strip()
    if not end.endswith("}"):
        return ""
    for begin in [*_BEGINS.finditer(end)][-MAX_OBJECTS:]:
        read = _read(end[begin.start():])
        if isinstance(read, dict):
            values = {str(key).casefold().replace(" ", "_"): value for key, value in read.items()}
            value = next((values[key] for key in _KEYS if key in values), None)
            return json.dumps(value) if isinstance(value, bool | int | float) else value if isinstance(
                value, str) else ""
    return ""


def named_numbers(line: str) -> list[tuple[str, str]]:
    """The names of a JSON list of objects with their numbers; empty where it is something else.

    >>> named_numbers('[{"name": "Ann", "age": 12}, {"name": "Ben", "age": 9}]')
    [('Ann', '12'), ('Ben', '9')]
    """
    read = _read(line) if line.startswith("[{") else None
    found = []
    for each in read if isinstance(read, list) else []:
        values = list(each.values()) if isinstance(each, dict) else []
        names = [value for value in values if isinstance(value, str)]
        numbers = [str(value) for value in values if isinstance(value, int | float)]
        if len(names) != 1 or len(numbers) != 1:
            return []
        found.append((names[0], numbers[0]))
    return found


def _read(text: str) -> Any:
    try:
        return json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
