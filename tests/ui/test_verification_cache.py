"""A verdict is kept for the very files that it was said of."""

import json
import os
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from tests.record import synthetic
from workings.cli.main import app
from workings.ui.verification_cache import VerificationCache

ANSWER = {"level": 2, "passed": 1, "failed": 0, "not_checked": 0, "checks": []}


def test_another_run_with_the_same_sums_does_not_take_a_verdict_over(tmp_path: Path) -> None:
    honest, forged = tmp_path / "honest", tmp_path / "forged"
    honest.mkdir()
    (honest / "SHA256SUMS").write_text("ab  run_manifest.json\n")
    (honest / "run_manifest.json").write_text("{}")
    store = VerificationCache(tmp_path / "cache")
    store.keep(store.stamps(honest), ANSWER)
    kept = store.get(honest)
    assert kept is not None
    assert kept.level == 2
    shutil.copytree(honest, forged)
    assert store.get(forged) is None
    # The honest run's place, with other bytes under its sums and the old times.
    facts = (honest / "run_manifest.json").stat()
    (forged / "run_manifest.json").write_text("[]")
    os.utime(forged / "run_manifest.json", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    shutil.rmtree(honest)
    forged.rename(honest)
    assert store.get(honest) is None


def sealed(folder: Path, name: str) -> Path:
    run = folder / name
    run.mkdir(parents=True)
    (run / "SHA256SUMS").write_text(f"ab  {name}\n")
    (run / "run_manifest.json").write_text("{}")
    return run


def test_what_the_command_line_verified_is_known_to_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    a, b = sealed(tmp_path / "runs", "a"), sealed(tmp_path / "runs", "b")
    store = VerificationCache.here()
    before = store.stamps(tmp_path / "runs")
    assert set(before) == {a, b}
    store.keep(before, ANSWER | {"failed": 1})
    assert store.get(a) is None, "of several, a failed check does not say whose it is"
    (b / "run_manifest.json").write_text("[]")  # while it was being verified
    store.keep(before, ANSWER)
    kept = store.get(a)
    assert kept is not None
    assert (kept.level, kept.together, store.get(b)) == (2, 2, None)
    # A look at less takes nothing away; a failure does.
    store.keep(store.stamps(a), ANSWER | {"level": 0, "asked_level": 0})
    assert store.get(a) == kept
    store.keep(store.stamps(a), ANSWER | {"level": -1, "asked_level": 0, "failed": 1})
    failed = store.get(a)
    assert failed is not None
    assert (failed.level, failed.together) == (-1, 1)
    assert store.stamps(tmp_path / "runs.zip") == {}


def test_a_digest_of_something_else_changes_no_verdict_on_the_page(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    a, _ = (synthetic.sealed_run(tmp_path / "runs" / name, name=name) for name in "ab")
    root = json.loads((a / "SEAL.json").read_text())["root"]

    def verified(path: Path, *words: str) -> int | None:
        CliRunner().invoke(app, ["verify", str(path), "--level", "0", *words])
        kept = VerificationCache.here().get(a)
        return None if kept is None else kept.level

    assert verified(a, "--expect-root", "0" * 64) is None
    assert verified(a) == 0
    assert verified(a, "--expect-root", "0" * 64) == 0, "the same files"
    assert verified(a.parent, "--expect-root", root) == 0, "the digest of one of two"
    (a / "README.md").write_text("changed\n")
    assert verified(a, "--expect-root", "0" * 64) == -1, "other files"
