"""Sealing: coreutils agree, sealed units never change, and what a record may not hold is refused."""

import shlex
import subprocess
from pathlib import Path, PurePosixPath

import pytest

from workings.errors import RecordError, RequestError
from workings.record.layout import check_relative, refuse_unit_name, unit_of
from workings.record.seal import parse_seal, parse_sums, root_digest, seal_unit


def unit(path: Path) -> Path:
    (path / "b" / "c").mkdir(parents=True)
    (path / "a.txt").write_text("a")
    (path / "b" / "c" / "d.json").write_text("{}")
    return path


def test_coreutils_agree(tmp_path) -> None:
    (unit(tmp_path) / "empty" / "deeper").mkdir(parents=True)
    root = seal_unit(tmp_path, "eval", "complete", None)
    done = subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "a.txt: OK\nb/c/d.json: OK\n")
    listed = subprocess.run(["sha256sum", "SHA256SUMS"], cwd=tmp_path, capture_output=True, text=True).stdout
    assert listed.split()[0] == root == root_digest(tmp_path)
    assert not (tmp_path / "empty").exists()
    seal = parse_seal((tmp_path / "SEAL.json").read_bytes())
    assert seal == {"schema": "seal/1", "unit": "eval", "status": "complete", "root": root,
                    "made_from": {"absent": "made from no other unit"}}
    assert (tmp_path / "SEAL.json").read_bytes().count(b"\n") == 1


def test_nested_units_are_left_to_themselves(tmp_path) -> None:
    unit(tmp_path)
    for name in ("eval/test", "eval/again", "attest"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "x.json").write_text("{}")
    seal_unit(tmp_path, "run", "complete", None)
    assert set(parse_sums((tmp_path / "SHA256SUMS").read_bytes())) == {"a.txt", "b/c/d.json"}
    before = root_digest(tmp_path)
    assert seal_unit(tmp_path / "eval" / "test", "eval", "complete", before) == root_digest(tmp_path / "eval" / "test")
    assert root_digest(tmp_path) == before


def test_an_unsealed_folder_has_no_root_and_a_sealed_unit_is_not_sealed_again(tmp_path) -> None:
    with pytest.raises(RecordError, match="not sealed"):
        root_digest(tmp_path)
    seal_unit(unit(tmp_path), "eval", "complete", None)
    with pytest.raises(RecordError, match="sealed units never change"):
        seal_unit(tmp_path, "eval", "complete", None)


@pytest.mark.parametrize(("make", "message"), [
    (lambda path: (path / ".hidden").write_text("x"), "not a path that a record may hold"),
    (lambda path: (path / "link").symlink_to("a.txt"), "a link or a special file"),
    (lambda path: (path / "A.txt").write_text("x"), "differ only in upper and lower case"),
], ids=["hidden", "link", "case"])
def test_what_a_record_may_not_hold(tmp_path, make, message: str) -> None:
    make(unit(tmp_path))
    with pytest.raises(RecordError, match=message):
        seal_unit(tmp_path, "eval", "complete", None)
    assert not (tmp_path / "SEAL.json").exists()


SUM = b"0" * 64
SEALED = '{"schema":"seal/%s","unit":"run","status":"%s","root":"","made_from":{"absent":"made from no other unit"}}'


@pytest.mark.parametrize(("parse", "text"), [
    *((check_relative, text) for text in (
        "/a", "../a", "a/../b", "a//b", "", "a/", ".a", "a\\b", "c:", "a.", "é", "a b", "a\nb", "a" * 300)),
    *((parse_sums, data) for data in (
        b"abc  a.txt\n", SUM + b"  a.txt", SUM + b" *a.txt\n", b"A" * 64 + b"  a.txt\n", SUM + b"  ../a\n",
        SUM + b"  b\n" + SUM + b"  a\n", (SUM + b"  a\n") * 2, b"\xff\n")),
    *((parse_seal, data) for data in (
        b"[]", b"{}", (SEALED % (2, "complete")).encode(), (SEALED % (1, "fine")).encode()))])
def test_other_forms_are_refused(parse, text: str | bytes) -> None:
    with pytest.raises(RecordError):
        parse(text)


def test_units_by_place() -> None:
    places = {"train/metrics.jsonl": "", "eval/test/a.json": "eval/test", "eval": "", "replay/x": "",
              "report/a.json": "", "notes/1/n.json": "", "attest/s.json": "attest", "evaluation/x": ""}
    assert {name: unit_of(PurePosixPath(name)) for name in places} == places


# --- names ---------------------------------------------------------------------------------------------------------

@pytest.mark.parametrize(("name", "plain"), [
    ("mein lauf", "mein-lauf"), ("Größe 2", "Gr-e-2"), (".hidden", "hidden"), ("a" * 201, "a" * 200),
    ("日本", "run")])
def test_a_name_that_no_pack_could_hold_is_refused_with_one_that_it_can(tmp_path: Path, name: str, plain: str) -> None:
    with pytest.raises(RequestError) as refused:
        refuse_unit_name(tmp_path / name)
    proposed = Path(shlex.split(refused.value.try_next)[1])
    assert proposed == tmp_path / plain
    refuse_unit_name(proposed)
