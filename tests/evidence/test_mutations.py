"""Every file of a sealed record x every way to change it: all are caught, by the check that is meant to."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.evidence.verdicts import failed, said
from workings.evidence.attest.keys import new_key
from workings.evidence.attest.sign import sign_run

SEALING = {"SHA256SUMS", "SEAL.json"}
Change = Callable[[Path], object]


def flipped(place: Callable[[bytes], int]) -> Change:
    """One bit of the byte at a place."""
    def change(file: Path) -> None:
        data = bytearray(file.read_bytes())
        data[place(data)] ^= 1
        file.write_bytes(data)
    return change


def append(file: Path) -> None:
    with file.open("ab") as stream:
        stream.write(b"\n")


def swap(file: Path) -> None:
    """With another file of the same unit: contents change places, nothing else does."""
    unit = next(parent for parent in file.parents if (parent / "SEAL.json").exists())
    names = ("README.md", "run_manifest.json", "predictions.jsonl", "SHA256SUMS")
    other = next(unit / name for name in names if (unit / name).exists() and unit / name != file)
    mine, theirs = file.read_bytes(), other.read_bytes()
    file.write_bytes(theirs)
    other.write_bytes(mine)


def link(file: Path) -> None:
    target = file.parent.parent / ("outside-" + file.name)
    shutil.copy(file, target)
    file.unlink()
    file.symlink_to(target)


def fifo(file: Path) -> None:
    file.unlink()
    os.mkfifo(file)


SUMS, FILES, NAMES, SEALED = "integrity.sums", "integrity.files", "integrity.names", "integrity.sealed"
EXPECTED: dict[str, tuple[Change, set[str], set[str]]] = {
    # the change; ids, one of them must fail for a listed file; the same for sums or seal
    "flip": (flipped(lambda data: len(data) // 2), {SUMS}, {SEALED, "consistency.made_from"}),
    "flip first": (flipped(lambda data: 0), {SUMS}, {SEALED}),
    "truncate": (lambda file: os.truncate(file, file.stat().st_size // 2), {SUMS}, {SEALED}),
    "append": (append, {SUMS}, {SEALED, "form.json"}),
    "delete": (Path.unlink, {FILES}, {SEALED}),
    "add": (lambda file: shutil.copy(file, file.with_name("zzz-" + file.name)), {FILES}, {FILES}),
    "rename": (lambda file: file.rename(file.with_name("zzz-" + file.name)), {FILES}, {SEALED}),
    "swap": (swap, {SUMS}, {SEALED}),
    "link": (link, {NAMES}, {NAMES}),
    "hard name": (lambda file: file.rename(file.with_name(file.name.swapcase())), {FILES}, {SEALED}),
    "git file": (lambda file: file.with_name(".git").write_text("gitdir: elsewhere\n"), {NAMES}, {NAMES}),
    "empty folder": (lambda file: file.with_name("zzz-empty").mkdir(), {NAMES}, {NAMES}),
    "fifo": (fifo, {NAMES}, {NAMES}),
}
ATTESTED = {"attestation.signed", "attestation.trust"}
"""For signatures and keys, which no sum covers: the reader's trusted key shows what is missing."""


def expected(name: Path, listed: set[str], sealing: set[str]) -> set[str]:
    """Ids; one of them must fail for a file."""
    return ATTESTED if "attest" in name.parts else sealing if name.name in SEALING else listed


def whole_record(pristine: Path, folder: Path) -> tuple[Path, bytes]:
    """A folder of runs whose run has an evaluation and a signature, and the key to trust."""
    shutil.copytree(pristine, folder / "runs")
    new_key(folder / "key")
    sign_run(folder / "runs" / "tiny", folder / "key")
    return folder / "runs", (folder / "key.pub").read_bytes()


@pytest.fixture(scope="module")
def whole(pristine: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bytes]:
    return whole_record(pristine, tmp_path_factory.mktemp("whole"))


OF_EVERY_FILE = ("flip", "delete")
"""Changes that are tried on every file; the others, on one file of each folder and on sums and seals."""


@pytest.mark.slow
@pytest.mark.parametrize("name", EXPECTED)
def test_changed_files(whole: tuple[Path, bytes], tmp_path: Path, name: str) -> None:
    """`proof/verify_matrix.py` tries every change on every file."""
    runs, key = whole
    change, listed, sealing = EXPECTED[name]
    files = sorted(path.relative_to(runs / "tiny") for path in (runs / "tiny").rglob("*") if path.is_file())
    assert len(files) > 30
    if name not in OF_EVERY_FILE:
        first = {file.parent: file for file in reversed(files)}
        files = [file for file in files if first[file.parent] == file or file.name in SEALING]
        assert len(files) > 12
    missed = []
    for file in files:
        copy = tmp_path / "runs" / "tiny"
        shutil.copytree(runs, tmp_path / "runs")
        change(copy / file)
        # A flipped digit of the origin in a seal is still a digest: that it is the wrong one shows at level 1.
        found = failed(copy, level=1 if name == "flip" and file.name == "SEAL.json" else 0, trusted=(key,))
        if not found & expected(file, listed, sealing):
            missed.append(f"{file}: {sorted(found)}")
        shutil.rmtree(tmp_path / "runs")
    assert missed == []


def test_a_unit_replaced_by_a_link(run: Path, tmp_path: Path) -> None:
    (run / "eval/test").rename(tmp_path / "moved")
    (run / "eval/test").symlink_to(tmp_path / "moved")
    assert "integrity.names" in failed(run.parent)


def test_a_linked_run_in_a_folder_of_runs_is_not_entered(run: Path, pristine: Path) -> None:
    (run.parent / "other").symlink_to(pristine / "tiny")
    verdict, text = said(run.parent, level=0)["integrity.files"]
    assert (verdict, "other" in text) == ("not_checked", True)
