"""Atomic files and appended lines: whole or not at all, on a full disk, a read-only one, and after a torn line."""

import contextlib
import errno
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.record.synthetic import names
from workings.errors import RecordError, StorageError
from workings.record import atomic, jsonl
from workings.record.storage import storage


def test_a_file_is_replaced_and_nothing_is_left_over(tmp_path) -> None:
    path = tmp_path / "a.json"
    atomic.write_json(path, {"b": 1.0, "a": "é"})
    assert path.read_bytes() == '{"a":"é","b":1}\n'.encode()
    atomic.write_text(path, "two")
    assert path.read_text() == "two"
    assert names(tmp_path) == ["a.json"]


def test_nulls_and_failing_writers_change_nothing(tmp_path) -> None:
    path = tmp_path / "a.json"
    atomic.write_json(path, {"a": 1})
    with pytest.raises(RecordError, match=r"null at \$\.a\[0\]"):
        atomic.write_json(path, {"a": [None]})

    def fail(stream: object) -> None:
        raise KeyError("from the caller")

    with pytest.raises(KeyError):
        atomic.write_with(path, fail)
    assert path.read_bytes() == b'{"a":1}\n'
    assert names(tmp_path) == ["a.json"]


@contextlib.contextmanager
def file_limit(size: int) -> Iterator[None]:
    """No file of this process may grow beyond ``size`` bytes: what a full disk does, without a disk. No fixture, for
    pytest writes its own output before a fixture ends."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_files_that_belong_together_leave_no_part_of_them(tmp_path: Path) -> None:
    old, new, never = (tmp_path / name for name in ("old", "new", "never"))
    old.write_text("before")
    with pytest.raises(RecordError), atomic.together(old, new, never):
        atomic.write_json(new, {}), atomic.write_json(never, None)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]


def test_a_file_that_may_not_grow_keeps_its_old_contents(tmp_path) -> None:
    path = tmp_path / "a.txt"
    atomic.write_text(path, "old")
    with file_limit(4096), pytest.raises(StorageError, match=r"could not write .*limit on file size.*EFBIG"):
        atomic.write_text(path, "x" * 4097)
    assert path.read_text() == "old"
    assert names(tmp_path) == ["a.txt"]


def test_a_line_that_does_not_fit_is_taken_back(tmp_path) -> None:
    appender = jsonl.Appender(tmp_path / "a.jsonl")
    for number in range(4):
        appender.append({"n": number, "text": "x" * 900})
    size = (tmp_path / "a.jsonl").stat().st_size
    with file_limit(4096), pytest.raises(StorageError, match="could not append"):
        appender.append({"n": 4, "text": "x" * 900})  # a part of it fits
    assert (tmp_path / "a.jsonl").stat().st_size == size
    rows, torn = jsonl.read(tmp_path / "a.jsonl")
    assert ([row["n"] for row in rows], torn) == ([0, 1, 2, 3], None)
    appender.append({"n": 4})
    appender.close()
    appender.close()
    assert len(jsonl.read(tmp_path / "a.jsonl")[0]) == 5


def test_torn_and_broken_lines(tmp_path) -> None:
    path = tmp_path / "a.jsonl"
    assert jsonl.read(path) == ([], None)
    path.write_bytes(b'{"n":1}\n{"n":2}\n{"n":')
    assert jsonl.read(path) == ([{"n": 1}, {"n": 2}], '{"n":')
    assert jsonl.cut_torn_line(path) == '{"n":'
    assert path.read_bytes() == b'{"n":1}\n{"n":2}\n'
    assert jsonl.cut_torn_line(path) is None
    path.write_bytes(b'{"n":1}\n{"n":\n{"n":3}\n')
    with pytest.raises(RecordError, match=r"a\.jsonl, line 2 is damaged: not JSON"):
        jsonl.read(path)
    path.write_bytes(b"[1]\n")
    with pytest.raises(RecordError, match="line 1 is damaged: not a JSON object"):
        jsonl.read(path)


def test_lines_of_two_appenders_never_mix(tmp_path) -> None:
    one, other = jsonl.Appender(tmp_path / "a.jsonl"), jsonl.Appender(tmp_path / "a.jsonl")
    for number in range(50):
        one.append({"from": "one", "n": number})
        other.append({"from": "other", "n": number})
    one.close()
    other.close()
    rows, _ = jsonl.read(tmp_path / "a.jsonl")
    assert [row["n"] for row in rows if row["from"] == "one"] == list(range(50))
    assert len(rows) == 100


@pytest.mark.parametrize(("number", "code"), [(errno.EACCES, 2), (errno.EPERM, 2), (errno.ENOSPC, 1), (errno.EIO, 1)])
def test_a_place_of_somebody_else_is_a_mistake_of_the_request(tmp_path: Path, number: int, code: int) -> None:
    with pytest.raises(StorageError) as failed, storage(tmp_path, "write"):
        raise OSError(number, "said by the system")
    assert failed.value.exit_code == code
