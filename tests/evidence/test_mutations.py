"""Every file of a sealed record x every way to change it: all are caught, by the check that is meant to."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from workings.evidence.attest.keys import new_key
from workings.evidence.attest.sign import sign_run
from workings.evidence.notes import write_note
from workings.evidence.verify import verify

SEALING = {"SHA256SUMS", "SEAL.json"}


def flip(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)


def flip_first(file: Path) -> None:
    data = bytearray(file.read_bytes())
    data[0] ^= 1
    file.write_bytes(data)


def truncate(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def append(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"\n")


def delete(file: Path) -> None:
    file.unlink()


def add(file: Path) -> None:
    shutil.copy(file, file.with_name("zzz-" + file.name))


def rename(file: Path) -> None:
    file.rename(file.with_name("zzz-" + file.name))


def swap(file: Path) -> None:
    """With another file of the same unit: contents change places, nothing else does."""
    unit = next(parent for parent in file.parents if (parent / "SEAL.json").exists())
    names = ("README.md", "run_manifest.json", "samples.md", "predictions.jsonl", "note.json", "SHA256SUMS")
    other = next(unit / name for name in names if (unit / name).exists() and unit / name != file)
    mine, theirs = file.read_bytes(), other.read_bytes()
    file.write_bytes(theirs)
    other.write_bytes(mine)


def link(file: Path) -> None:
    target = file.parent.parent / ("outside-" + file.name)
    shutil.copy(file, target)
    file.unlink()
    file.symlink_to(target)


def hard_name(file: Path) -> None:
    """The same bytes under another case."""
    file.rename(file.with_name(file.name.swapcase()))


def git_file(file: Path) -> None:
    file.with_name(".git").write_text("gitdir: elsewhere\n")


def empty_folder(file: Path) -> None:
    file.with_name("zzz-empty").mkdir()


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


EXPECTED: list[tuple[Callable[[Path], None], set[str], set[str]]] = [
    # what is done, ids of which one must fail for a listed file, ids of which one must fail for sums or seal
    (flip, {"integrity.sums"}, {"integrity.sealed", "consistency.made_from"}),
    (flip_first, {"integrity.sums"}, {"integrity.sealed"}),
    (truncate, {"integrity.sums"}, {"integrity.sealed"}),
    (append, {"integrity.sums"}, {"integrity.sealed", "form.json"}),
    (delete, {"integrity.files"}, {"integrity.sealed"}),
    (add, {"integrity.files"}, {"integrity.files"}),
    (rename, {"integrity.files"}, {"integrity.sealed"}),
    (swap, {"integrity.sums"}, {"integrity.sealed"}),
    (link, {"integrity.names"}, {"integrity.names"}),
    (hard_name, {"integrity.files"}, {"integrity.sealed"}),
    (git_file, {"integrity.names"}, {"integrity.names"}),
    (empty_folder, {"integrity.names"}, {"integrity.names"}),
    (fifo, {"integrity.names"}, {"integrity.names"}),
]


ATTESTED = {"attestation.signed", "attestation.trust"}
"""For signatures and keys, which no sum covers: the reader's trusted key shows what is missing."""


def expected(name: Path, listed: set[str], sealing: set[str]) -> set[str]:
    """Ids of which one must fail for a file."""
    return ATTESTED if "attest" in name.parts else sealing if name.name in SEALING else listed


def whole_record(pristine: Path, folder: Path) -> tuple[Path, bytes]:
    """A folder of runs whose run has an evaluation, a note and a signature, and the key to trust."""
    shutil.copytree(pristine, folder / "runs")
    write_note(folder / "runs" / "tiny", {"kaggle_notebook_version": "7"})
    key = new_key(folder / "key")
    sign_run(folder / "runs" / "tiny", key.private)
    return folder / "runs", key.public.read_bytes()


@pytest.fixture(scope="module")
def whole(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    return whole_record(pristine, tmp_path_factory.mktemp("whole"))


OF_EVERY_FILE = (flip, delete)
"""Changes that are tried on every file; the others, on one file of each folder and on sums and seals."""


@pytest.mark.slow
@pytest.mark.parametrize("every", [pytest.param(True, marks=pytest.mark.full), False], ids=["every file", "some"])
@pytest.mark.parametrize(("change", "listed", "sealing"), EXPECTED, ids=[change.__name__ for change, *_ in EXPECTED])
def test_changed_files(whole: tuple[Path, bytes], tmp_path: Path, change: Callable[[Path], None], listed: set[str],
                       sealing: set[str], every: bool) -> None:
    runs, key = whole
    files = sorted(path.relative_to(runs / "tiny") for path in (runs / "tiny").rglob("*") if path.is_file())
    assert len(files) > 30
    if not every and change not in OF_EVERY_FILE:
        first = {file.parent: file for file in reversed(files)}
        files = [file for file in files if first[file.parent] == file or file.name in SEALING]
        assert len(files) > 12
    missed = []
    for name in files:
        copy = tmp_path / "runs" / "tiny"
        shutil.copytree(runs, tmp_path / "runs")
        change(copy / name)
        # A flipped digit of the origin in a seal is still a digest: that it is the wrong one shows at level 1.
        found = verify(copy, level=1 if change is flip and name.name == "SEAL.json" else 0, trusted=(key,))
        failed = {one.id for one in found.checks if one.verdict == "failed"}
        if not failed & expected(name, listed, sealing):
            missed.append(f"{name}: {sorted(failed)}")
        shutil.rmtree(tmp_path / "runs")
    assert missed == []


def test_a_unit_replaced_by_a_link(pristine: Path, tmp_path: Path) -> None:
    shutil.copytree(pristine, tmp_path / "runs")
    place = tmp_path / "runs" / "tiny" / "eval" / "test"
    place.rename(tmp_path / "moved")
    place.symlink_to(tmp_path / "moved")
    assert "integrity.names" in {one.id for one in verify(tmp_path / "runs").checks if one.verdict == "failed"}


def test_a_linked_run_in_a_folder_of_runs_is_not_entered(pristine: Path, tmp_path: Path) -> None:
    shutil.copytree(pristine, tmp_path / "runs")
    (tmp_path / "runs" / "other").symlink_to(pristine / "tiny")
    extra = next(one for one in verify(tmp_path / "runs", level=0).checks if one.id == "integrity.files")
    assert extra.verdict == "not_checked"
    assert "other" in extra.text
