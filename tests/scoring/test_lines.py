"""Lines of a record are the canonical ones, and any file can be read line by line."""

from pathlib import Path
from typing import Any

import pytest
import rfc8785
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from workings.errors import RecordError
from workings.record.canonical import line, record_line
from workings.scoring import lines
from workings.scoring.lines import read_lines

VALUES = st.recursive(
    st.booleans() | st.text() | st.integers(-2**53 + 1, 2**53 - 1) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4), max_leaves=8)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])  # a busy machine is no finding
@given(st.dictionaries(st.sampled_from(["id", "score", "a_b", "Z", "é", "prompt"]), VALUES))
def test_fast_lines_are_canonical(record: dict[str, Any]) -> None:
    reference = rfc8785.dumps(record) + b"\n"  # not through the code that is tested
    assert record_line(record, "a file") == reference
    assert line(record) == reference


def test_what_json_cannot_say_is_refused() -> None:
    for value in (None, [None], float("nan"), float("inf"), 2**60, "\ud800"):
        with pytest.raises((RecordError, UnicodeEncodeError)):
            record_line({"a": value}, "a file")


def test_a_line_that_is_too_long_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE_BYTES", 20)
    path = tmp_path / "a.jsonl"
    path.write_bytes(b'{"a": 1}\n\n{"long": "' + b"x" * 50 + b'"}\n{"b": 2}')
    assert list(read_lines(path)) == [(1, {"a": 1}), (3, "longer than 20 bytes"), (4, {"b": 2})]
