"""Fuzzing the importers: never a traceback, never a lost row, regardless of the bytes."""

import json
import tempfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.data.making import imported_file
from workings.data.importing.formats import FORMATS
from workings.data.row_fields import path_beside
from workings.errors import RequestError

KEYS = ("id", "question", "answer", "prompt", "completion", "messages", "conversations", "role", "content", "from",
        "value", "instruction", "input", "output", "history", "system", "text", "steps", "final_answer", "metadata",
        "section", "license", "type", "reasoning_content", "chosen", "rejected", "label", "kto_tag", "completions",
        "reasoning", "thinking", "solution", "response", "score", "score_chosen", "score_rejected")
SCRAPS = ("", " ", "2", "user", "assistant", "system", "human", "gpt", "<think>", "</think>", "é", "text",
          "<reasoning>a</reasoning>", "<answer>2</answer>", "</answer>", "x\n#### 2", "#### ", "<<1+1=2>>", "\ud800",
          "\n\nHuman: ", "\n\nAssistant: ", "\x00", "\u2028", "\r\n")
TEXTS = st.lists(st.sampled_from(SCRAPS) | st.text(max_size=5), max_size=4).map("".join)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=5),
    max_leaves=12)
RECORDS = st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=6) | VALUES
PIECES = (b'{"question": "1?", "answer": "#### 1"}', b"question", b"answer", b"#### 1", b"\n", b"\r\n", b"\xef\xbb\xbf",
          b"[", b"]", b",", b"{", b"}", b"\xff", b"1", b'"', b'""', b"\\u", b"\x00", b" ")
pytestmark = pytest.mark.slow


def check(content: bytes, kind: str, name: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, name)
        path.write_bytes(content)
        try:
            result, entries = imported_file(path, kind)
        except RequestError:
            # the file as a whole: empty, another encoding, or an array that breaks off
            assert not Path(folder, "out.jsonl").exists()
            return
        assert result.read == result.written + result.rejected
        assert result.out.exists() == (result.written > 0 or not result.read)
        assert len(entries) == result.written
        rejects = path_beside(result.out, "rejects.jsonl").read_bytes().splitlines() if result.rejects else []
        assert len([json.loads(line) for line in rejects]) == result.rejected == sum(result.reasons.values())
        if name.endswith(".jsonl") and not content.lstrip().startswith((b"[", b"\xef\xbb\xbf", b"PAR1")):
            assert result.read == sum(1 for line in content.split(b"\n") if line.strip())


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(kind=st.sampled_from([*FORMATS]), name=st.sampled_from(["file.jsonl", "file.csv"]),
       content=st.lists(RECORDS, max_size=4).map(lambda records: "\n".join(map(json.dumps, records)).encode())
       | st.binary(max_size=200) | st.lists(st.sampled_from(PIECES), max_size=16).map(b"".join))
def test_any_bytes(kind: str, name: str, content: bytes) -> None:
    check(content, kind, name)
