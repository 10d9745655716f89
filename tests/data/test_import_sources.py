"""Files as they come: arrays, parquet, byte order marks, wrong encodings, long lines, broken JSON."""

import json
import tracemalloc
from dataclasses import replace
from pathlib import Path

import pytest

from tests.data.making import imported_file
from workings.data.importing.run import ImportRequest, ImportResult, import_records
from workings.data.importing.sources import SourceRecord, Unreadable, open_file, open_hub
from workings.data.row_fields import path_beside
from workings.data.traces import read_traces
from workings.errors import RequestError

ONE = {"question": "1+1?", "answer": "1+1=2\n#### 2"}
LINE = json.dumps(ONE).encode()
GSM8K = ImportRequest(format="gsm8k", labels={})


def run(path: Path, kind: str = "gsm8k", **keys: object) -> ImportResult:
    return imported_file(path, kind, **keys)[0]


def written(tmp_path: Path, content: bytes, name: str = "file.jsonl") -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


@pytest.mark.parametrize("content", [
    LINE, LINE + b"\n", b"\xef\xbb\xbf" + LINE + b"\n", LINE + b"\r\n", b"\n\r\n  \n" + LINE + b"\n\n",
    b"[" + LINE + b"]", b"\xef\xbb\xbf [\n" + LINE + b"\n]\n",
], ids=["bare", "line", "bom", "crlf", "blank lines", "array", "array with bom"])
def test_spellings_of_one_record(tmp_path: Path, content: bytes) -> None:
    result = run(written(tmp_path, content), on_error="fail")
    assert (result.read, result.written, result.rejected) == (1, 1, 0)
    assert read_traces(result.out)[0].steps == ("1+1=2",)


@pytest.mark.parametrize(("line", "reason"), [
    (b'{"question": "1', "not JSON"),
    (b"{'question': 1}", "not JSON"),
    (b'{"question": NaN}', "NaN is not JSON"),
    (b'{"question": "a", "question": "b"}', "key 'question' is given twice"),
    (b'{"question": "caf\xe9"}', "not UTF-8 at byte 18"),
    (b"[" * 100_000, "nested"),
    (b"[" * 80 + b"]" * 80, "nested deeper than 64"),
    (b'{"question": ' + b"9" * 5000 + b"}", "limit"),
    (b"\x00\x01\x02", "not JSON"),
])
def test_a_bad_line_is_kept_beside_with_its_number(tmp_path: Path, line: bytes, reason: str) -> None:
    path = written(tmp_path, LINE + b"\n" + line + b"\n" + LINE.replace(b"1+1?", b"2?") + b"\n")
    result = run(path)
    assert (result.read, result.written, result.rejected) == (3, 2, 1)
    [rejected] = [json.loads(text) for text in path_beside(result.out, "rejects.jsonl").read_text().splitlines()]
    assert (rejected["file"], rejected["line"], rejected["bytes"]) == (str(path), 2, len(line) + 1)
    assert rejected["raw"] == line.decode("utf-8", "backslashreplace")
    assert reason in rejected["reason"]
    with pytest.raises(RequestError) as caught:
        import_records(open_file(path), tmp_path / "other.jsonl", GSM8K)
    assert caught.value.given.startswith(f"{path}:2: ")
    assert not (tmp_path / "other.jsonl").exists()


def test_a_huge_line_is_rejected_without_being_held(tmp_path: Path) -> None:
    path = tmp_path / "file.jsonl"
    with path.open("wb") as stream:
        stream.write(LINE + b"\n" + b'{"question": "')
        for _ in range(100):
            stream.write(b"x" * 1_000_000)
        stream.write(b'"}\n' + LINE + b"\n")
    tracemalloc.start()
    result = run(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (result.read, result.written, result.rejected) == (3, 2, 1)
    assert peak < 60 << 20
    [rejected] = [json.loads(text) for text in path_beside(result.out, "rejects.jsonl").read_text().splitlines()]
    assert "a record of 100,000,017 bytes" in rejected["reason"]
    assert len(rejected["raw"]) == 1000


@pytest.mark.parametrize("content", [
    b"[" + LINE, b"[" + LINE + b",", b"[" + LINE + b"]]", b"[" + LINE + LINE + b"]", b"[" + LINE + b", {]",
    b"[" + LINE + b",]", b"[" + b"[" * 100_000, b"[" + LINE + b', "caf\xe9"]', b"[" + LINE + b', {"a": 1, "a": 2}]',
    b"[" + b"[" * 70 + b"]" * 71,
])
def test_a_broken_array_is_an_error_even_when_skipping(tmp_path: Path, content: bytes) -> None:
    path = written(tmp_path, content)
    with pytest.raises(RequestError, match="not a JSON array: "):
        run(path)
    assert not (tmp_path / "out.jsonl").exists()
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize(("content", "reason"), [
    (b"", "is empty"), (b" \n\r\n ", "is empty"), ("x".encode("utf-16"), "UTF-16 or UTF-32"),
    ("x".encode("utf-32"), "UTF-16 or UTF-32"), (b"[]", "holds no record"), (b"PAR1 and no more", "whole parquet"),
    (b"\x1f\x8b\x08and more", "is compressed"),
])
def test_files_that_hold_nothing_readable(tmp_path: Path, content: bytes, reason: str) -> None:
    with pytest.raises(RequestError, match=reason):
        run(written(tmp_path, content))


def test_requests_that_cannot_be_met(tmp_path: Path) -> None:
    path = written(tmp_path, LINE)
    with pytest.raises(RequestError, match="one of ultrafeedback, "):
        run(path, "gsm9k")
    (tmp_path / "out.jsonl").write_text("mine")
    with pytest.raises(RequestError, match="already exists"):
        run(path, force=False)
    assert (tmp_path / "out.jsonl").read_text() == "mine"
    with pytest.raises(RequestError, match="a directory that exists"):
        import_records(open_file(path), tmp_path / "no" / "out.jsonl", GSM8K)


def test_what_holds_no_json_is_told_with_the_line_that_makes_some_of_it(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match=r"(?s)is a folder.*datasets.load_from_disk"):
        open_file(tmp_path)
    with pytest.raises(RequestError, match=r"there is no file .*absent.jsonl"):
        open_file(tmp_path / "absent.jsonl")


@pytest.mark.parametrize(("name", "text"), [
    ("pairs.csv", "\ufeffprompt,chosen,rejected\r\n2+2?,4,5\r\n\r\n\"a, b\nor c?\",c,\r\n3+3?,6\r\n"),
    ("pairs.tsv", "prompt\tchosen\trejected\n2+2?\t4\t5\n\"a, b\nor c?\"\tc\t\n3+3?\t6\n"),
])
def test_a_table_of_text_is_read_cell_by_cell(tmp_path: Path, name: str, text: str) -> None:
    (tmp_path / name).write_text(text, newline="")
    first, second, third = open_file(tmp_path / name).records()
    assert first == SourceRecord(1, {"prompt": "2+2?", "chosen": "4", "rejected": "5"})
    assert second == SourceRecord(2, {"prompt": "a, b\nor c?", "chosen": "c", "rejected": None})
    assert isinstance(third, Unreadable)
    assert third.reason == "2 cells under 3 columns"


@pytest.mark.parametrize(("data", "said"), [
    (b"a,a\n1,2\n", "each once"), (b"a,b\n1,\"2\" 3\n", "line 2"), (b"a,b\n1,\xff\n", "line 2.*utf-8")])
def test_a_table_that_is_none_is_told(tmp_path: Path, data: bytes, said: str) -> None:
    (tmp_path / "table.csv").write_bytes(data)
    with pytest.raises(RequestError, match=said):
        list(open_file(tmp_path / "table.csv").records())


def test_rejects_of_an_earlier_import_do_not_stay(tmp_path: Path) -> None:
    run(written(tmp_path, LINE + b"\nx\n"))
    assert path_beside(tmp_path / "out.jsonl", "rejects.jsonl").exists()
    run(written(tmp_path, LINE + b"\n"))
    assert not path_beside(tmp_path / "out.jsonl", "rejects.jsonl").exists()


def test_the_number_of_different_reasons_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.data.importing.run.MAX_REASONS", 2)
    result = run(written(tmp_path, b"1\n[1]\ntrue\n2\n"))
    assert dict(result.reasons) == {"a record must be an object, not a number": 2,
                                    "a record must be an object, not a list": 1, "other reasons": 1}


def test_parquet(tmp_path: Path) -> None:
    import datetime
    from decimal import Decimal

    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    rows = [{**ONE, "level": 3, "when": datetime.date(2026, 1, 2), "price": Decimal("1.50"), "data": b"x",
             "nothing": None, "nan": float("nan"), "deep": {"a": [1, None], "b": None}} for _ in range(600)]
    parquet.write_table(arrow.Table.from_pylist(rows), tmp_path / "file.parquet")
    result = run(tmp_path / "file.parquet")
    traces = read_traces(result.out)
    assert (result.read, result.written) == (600, 600)
    assert (traces[599].id, traces[599].steps) == ("file-0000600", ("1+1=2",))
    assert traces[0].metadata == {"level": 3, "when": "2026-01-02", "price": "1.50", "data": "b'x'", "nan": "nan",
                                  "deep": {"a": [1]}}


def test_a_data_set_by_the_datasets_library(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    folder = tmp_path / "owner" / "sums"
    folder.mkdir(parents=True)
    (folder / "train.jsonl").write_bytes(b"".join(
        json.dumps({"question": f"{n}+1?", "answer": f"x\n#### {n + 1}"}).encode() + b"\n" for n in range(30)))
    source = open_hub(str(folder), revision="", subset="", split="train")
    out = tmp_path / "out.jsonl"
    result = import_records(source, out, GSM8K)
    assert result.written == 30
    assert [trace.answer for trace in read_traces(out)] == [str(n + 1) for n in range(30)]
    assert read_traces(out)[0].id == "sums-0000001"
    with pytest.raises(RequestError, match="split nowhere"):
        import_records(open_hub(str(folder), revision="", subset="", split="nowhere"), tmp_path / "other.jsonl", GSM8K)
    with pytest.raises(RequestError, match="a data set that can be reached"):
        import_records(open_hub("missing/nothing", revision="main", subset="", split="train"), tmp_path / "other.jsonl",
                      GSM8K)


def test_nothing_behind_the_rows_that_are_asked_for_is_read(tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    arrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path / "sums"
    folder.mkdir()
    parquet.write_table(arrow.Table.from_pylist([{"question": f"{n}+1?", "answer": f"x\n#### {n + 1}"}
                                                 for n in range(30)]), folder / "train-00000-of-00002.parquet")
    (folder / "train-00001-of-00002.parquet").write_bytes(b"PAR1 and no table")
    (tmp_path / "lines.jsonl").write_text('{"question": "1+1?", "answer": "x\\n#### 2"}\n' * 2 + "broken\n")
    hub = open_hub(str(folder), revision="", subset="", split="train")
    for number, (source, rows) in enumerate([(hub, 7), (open_file(tmp_path / "lines.jsonl"), 2)]):
        out = tmp_path / f"{number}.jsonl"
        result = import_records(source, out, replace(GSM8K, rows=rows))
        assert (result.read, result.written, len(read_traces(out))) == (rows, rows, rows)
        with pytest.raises(RequestError):
            import_records(source, tmp_path / "all.jsonl", GSM8K)
