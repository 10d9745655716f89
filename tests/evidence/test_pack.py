"""Packs: complete, equal to the byte, verified as they are, and refused where they should not be published."""

import json
import os
import shutil
import zipfile
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.evidence import reseal
from tests.evidence.packs import seal_again, two_runs, unpacked
from tests.evidence.verdicts import failed, said
from tests.record import synthetic
from tests.samples.making import samples_unit
from workings.cli.main import app
from workings.errors import RecordError, RequestError
from workings.evidence.verify import verify
from workings.publish.pack import pack
from workings.record.digest import file_digest
from workings.record.seal import seal_unit

pytestmark = pytest.mark.slow  # together they take seconds
WEIGHTS = "checkpoints/step_000006/model.safetensors"


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two runs of one folder, both evaluated; one is signed and noted."""
    return two_runs(tmp_path_factory.mktemp("packing") / "runs")


@pytest.fixture(scope="module")
def packed(runs: Path) -> Path:
    pack([runs / "a", runs / "b"], runs.parent / "inside.zip")
    return runs.parent / "inside.zip"


@pytest.fixture(scope="module")
def thin(runs: Path) -> Path:
    pack([runs / "a", runs / "b"], runs.parent / "thin.zip", weights="digest")
    return runs.parent / "thin.zip"


@pytest.fixture
def opened(packed: Path, tmp_path: Path) -> Path:
    return unpacked(packed, tmp_path / "out")


def test_a_pack_verifies_as_it_is_and_unpacked(packed: Path, opened: Path) -> None:
    for place in (packed, opened):
        found = verify(place)
        assert (found.failed, found.level) == (0, 2)
        assert verify(place, expect_root=found.root).level == 2
        ids = {one.id: str(one.verdict) for one in found.checks}
        assert {ids[name] for name in ("integrity.pack", "consistency.views")} == {"passed"}
        assert ids["attestation.signed"] == "not_checked"  # a is not signed


def test_what_is_in_a_pack(packed: Path) -> None:
    with zipfile.ZipFile(packed) as archive:
        names = set(archive.namelist())
        attempts = archive.read("runs/attempts.jsonl").splitlines()
        readme = archive.read("README.md").decode()
    assert names >= {"README.md", "pack.json", "SEAL.json",
                     "runs/a/run_manifest.json", "runs/a/eval/items/predictions.jsonl",
                     "runs/b/attest/001.dsse.json", "runs/a/checkpoints/step_000006/model.safetensors"}
    assert len(attempts) == 4
    assert "workings train runs/a/config/recipe.yaml --out again/a" in readme


def test_equal_runs_give_equal_bytes(runs: Path, packed: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "elsewhere" / "runs")
    for path in (tmp_path / "elsewhere").rglob("*"):
        os.utime(path, (1, 1))
    other = tmp_path / "another-name.zip"
    pack([tmp_path / "elsewhere/runs/a", tmp_path / "elsewhere/runs/b"], other)
    assert other.read_bytes() == packed.read_bytes()


def test_weights_by_digest_are_neither_missing_nor_checked(packed: Path, thin: Path) -> None:
    assert (verify(thin).failed, verify(thin).level) == (0, 2)
    verdict, text = said(thin)["integrity.pack"]
    assert (verdict, "8 files" in text) == ("not_checked", True)
    assert "4 named by digest" in said(thin)["integrity.files"][1]
    with zipfile.ZipFile(thin) as archive:
        assert [name for name in archive.namelist() if name.endswith(".safetensors")] == []
        listed = json.loads(archive.read("pack.json"))
    with zipfile.ZipFile(packed) as archive:
        assert listed["units"] == json.loads(archive.read("pack.json"))["units"]


# --- changed packs; other fakes about packs are in tables ---------------------------------------------------------

@pytest.mark.parametrize(("file", "digest", "expected"), [
    *((file, "", {"integrity.files", "integrity.pack"}) for file in (
        "train/metrics.jsonl", "checkpoints/step_000006/COMMIT.json", "eval/items/predictions.jsonl")),
    (WEIGHTS, "ab" * 32, {"integrity.files", "integrity.pack", "integrity.checkpoints"}),
    (WEIGHTS, "here", {"integrity.pack"})])
def test_nothing_but_sealed_tensors_can_be_left_out(opened: Path, file: str, digest: str, expected: set[str]) -> None:
    """A forger lists a file as elsewhere, and leaves it out; the last one keeps it."""
    path = opened / "runs/a" / file
    row = {"place": "runs/a", "file": file, "bytes": path.stat().st_size,
           "sha256": digest if len(digest) == 64 else file_digest(path)}
    reseal.edit_json(opened / "pack.json", lambda value: value | {"weights": "digest", "by_digest": [row]})
    if digest != "here":
        path.unlink()
    seal_again(opened)
    assert expected <= failed(opened, level=0)


def test_the_pack_around_a_run_is_what_allows_it(thin: Path, tmp_path: Path) -> None:
    folder = unpacked(thin, tmp_path / "out")
    assert "integrity.files" in failed(folder / "runs/a", level=0)
    shutil.rmtree(folder / "runs/a/checkpoints/step_000006")
    assert "integrity.files" in failed(folder, level=0)


# --- what is not packed -------------------------------------------------------------------------------------------

def test_a_run_that_does_not_verify_is_not_packed(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    (tmp_path / "runs/a/README.md").write_text("other")
    with pytest.raises(RecordError, match="does not verify"):
        pack([tmp_path / "runs/a"], tmp_path / "out.zip")
    assert list(tmp_path.glob("*.zip*")) == []


def test_unsealed_failed_and_missing_runs_are_not_packed(runs: Path, tmp_path: Path) -> None:
    broken = synthetic.sealed_run(tmp_path / "broken", "failed", 4, name="broken", status_reason="loss was infinite")
    with pytest.raises(RequestError, match="broken failed: loss was infinite"):
        pack([broken], tmp_path / "out.zip")
    shutil.copytree(runs / "a", tmp_path / "open")
    (tmp_path / "open/SEAL.json").unlink()
    with pytest.raises(RequestError, match="a sealed run"):
        pack([tmp_path / "open"], tmp_path / "out.zip")
    with pytest.raises(RequestError, match="one sealed run or more"):
        pack([], tmp_path / "out.zip")
    with pytest.raises(RequestError, match="two runs are named a"):
        pack([runs / "a", runs / "a"], tmp_path / "out.zip")


def test_an_evaluation_beside_a_run_is_packed_and_compared(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs, tmp_path / "runs")
    base = tmp_path / "runs/base"
    shutil.copytree(runs / "a/eval/items", base)
    reseal.edit_json(base / "eval_config.json", lambda value: {key: inner for key, inner in value.items()
                                                             if key != "made_from"})
    for name in ("SEAL.json", "SHA256SUMS"):
        (base / name).unlink()
    seal_unit(base, "eval", "complete", None)
    out = tmp_path / "out.zip"
    pack([base, tmp_path / "runs/a"], out)
    assert failed(out) == set()
    assert "3 units" in said(out)["integrity.pack"][1]


def test_samples_called_like_a_run_have_another_place(runs: Path, tmp_path: Path) -> None:
    pack([runs / "a", samples_unit(tmp_path / "samples" / "a")], tmp_path / "out.zip")
    with zipfile.ZipFile(tmp_path / "out.zip") as archive:
        assert "runs/a-samples/SEAL.json" in archive.namelist()


def test_the_verb(runs: Path, tmp_path: Path) -> None:
    words = ["pack", str(runs / "a"), str(runs / "b"), "--out", str(tmp_path / "out.zip"), "--weights", "digest",
             "--json"]
    done = CliRunner().invoke(app, words)
    found = json.loads(done.stdout.splitlines()[-1])
    assert (found["by_digest"], found["bytes"]) == (8, (tmp_path / "out.zip").stat().st_size)
    assert "this will be published" in done.output
    assert "by digest, not in the zip" in done.output
    assert verify(tmp_path / "out.zip", expect_root=found["root"]).level == 2
    assert isinstance(CliRunner().invoke(app, words).exception, RequestError)
