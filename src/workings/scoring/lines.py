"""JSON lines from anywhere, one at a time, so that a file larger than memory can be read and a bad line is named."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is not read into memory; it is named instead."""


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Line number (from 1) and its JSON object, or a text that says why it is not one. Empty lines are skipped."""
    with path.open("rb") as file:
        number = 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            if len(line) == MAX_LINE_BYTES and not line.endswith(b"\n"):
                # Read to its end in dropped pieces, so that later numbers are correct.
                while (rest := file.readline(MAX_LINE_BYTES)) and not rest.endswith(b"\n"):
                    pass
                yield number, f"longer than {MAX_LINE_BYTES} bytes"
            elif line.strip():
                yield number, _parse_object(line)


def _parse_object(line: bytes) -> dict[str, Any] | str:
    try:
        record = json.loads(line)
    except RecursionError:
        return "nested too deeply"
    except ValueError as error:
        # Covers bad JSON, bad UTF-8 and integers with more digits than Python converts.
        return f"not JSON ({error})"
    if not isinstance(record, dict):
        return f"a JSON {type(record).__name__}, not an object"
    return record
