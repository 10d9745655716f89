"""JSON lines from anywhere, one at a time, so that a file larger than memory can be read and a bad line is named."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

MAX_LINE_BYTES = 64 * 1024 * 1024
"""A longer line is not read into memory; it is named instead."""


def read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any] | str]]:
    """Line number (from 1) and its JSON object, or a text that says why it is not one. Empty lines are skipped."""
    for number, _, record in read_lines_at(path):
        yield number, record


def read_lines_at(path: Path) -> Iterator[tuple[int, int, dict[str, Any] | str]]:
    """Yields what `read_lines` does, with the byte offset of each line in between."""
    with path.open("rb") as file:
        number, offset = 0, 0
        while line := file.readline(MAX_LINE_BYTES):
            number += 1
            length = len(line)
            if length == MAX_LINE_BYTES and not line.endswith(b"\n"):
                # Read to its end in dropped pieces, so that later numbers and offsets are correct.
                while rest := file.readline(MAX_LINE_BYTES):
                    length += len(rest)
                    if rest.endswith(b"\n"):
                        break
                yield number, offset, f"longer than {MAX_LINE_BYTES} bytes"
            elif line.strip():
                yield number, offset, parse_object(line)
            offset += length


def parse_object(line: bytes) -> dict[str, Any] | str:
    """The JSON object of one line, or a text that says why it is not one."""
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
