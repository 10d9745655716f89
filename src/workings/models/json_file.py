"""JSON files of published models, read in bounded memory. Errors name the file."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from workings.errors import RequestError

MAX_BYTES = 64 << 20
"""Largest file of settings that is read."""


def read_object(path: Path) -> dict[str, Any]:
    """The object in a JSON file. Raises `RequestError` for anything else."""
    return parse_object(read_bytes(path), str(path))


def write_object(path: Path, values: Mapping[str, Any]) -> None:
    """Write settings as published models have them: indented, sorted, in UTF-8."""
    path.write_text(json.dumps(values, indent=2, ensure_ascii=False, sort_keys=True) + "\n", encoding="utf-8")


def read_bytes(path: Path, *, max_bytes: int = MAX_BYTES) -> bytes:
    """The bytes of a file. Raises `RequestError` if it is too large or cannot be read."""
    try:
        # The file system's size is not asked: a link may lead to an endless device.
        with path.open("rb") as file:
            data = file.read(max_bytes + 1)
    except OSError as error:
        raise RequestError(f"{path} cannot be read: {error.strerror or error}", "a file that can be read") from None
    if len(data) > max_bytes:
        raise RequestError(f"{path} is larger than {max_bytes} bytes", "the file that was published with the model",
                           "download it again")
    return data


def read_text(path: Path, *, max_bytes: int = MAX_BYTES) -> str:
    """The text of a file in UTF-8. Raises `RequestError` as `read_bytes` does, and for other bytes."""
    try:
        return read_bytes(path, max_bytes=max_bytes).decode()
    except UnicodeDecodeError as error:
        raise RequestError(f"{path} is not text in UTF-8: {error}", "a text file", "download it again") from None


def parse_object(data: bytes, where: str) -> dict[str, Any]:
    """The object in bytes of JSON; ``where`` names the file in errors. Raises `RequestError` for anything else."""
    try:
        value = json.loads(data.decode(), object_pairs_hook=_without_contradiction)
    except (ValueError, RecursionError) as error:
        raise RequestError(f"{where} is not JSON: {str(error)[:200]}", "a JSON object in UTF-8",
                           "download it again") from None
    if not isinstance(value, dict):
        raise RequestError(f"{where} holds a JSON {type(value).__name__}", "a JSON object", "download it again")
    return value


def _without_contradiction(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object. Raises `ValueError` for a key with two values: some readers take the first one, others the last."""
    values = dict(pairs)
    if len(values) == len(pairs):
        return values
    for key, value in pairs:
        if values[key] != value:
            raise ValueError(f"key {key[:80]!r} is given twice, with two values")
    return values
