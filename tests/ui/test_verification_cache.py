"""A verdict is kept for the very files that it was said of."""

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
    store.keep(honest, store.stamp(honest), ANSWER)
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


def test_a_verdict_counts_while_no_file_changes_and_the_better_one_stays(tmp_path: Path) -> None:
    store, run = VerificationCache(tmp_path / "cache"), synthetic.sealed_run(tmp_path / "runs" / "a")
    before = store.stamp(run)
    store.keep(run, before, ANSWER)
    kept = store.get(run)
    assert kept is not None
    # A look at less takes nothing away; a failure does.
    store.keep(run, before, ANSWER | {"level": 0, "asked_level": 0})
    assert store.get(run) == kept
    store.keep(run, before, ANSWER | {"level": -1, "asked_level": 0, "failed": 1})
    failed = store.get(run)
    assert failed is not None
    assert failed.level == -1
    (run / "run_manifest.json").write_text("[]")
    store.keep(run, before, ANSWER)  # changed while it was being verified
    assert store.get(run) is None
    assert [store.stamp(path) for path in (run.parent, tmp_path / "runs.zip")] == ["", ""], "of several, none is named"


def test_a_digest_of_something_else_changes_no_verdict_on_the_page(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path / "cache"))
    a = synthetic.sealed_run(tmp_path / "a")

    def verified(*words: str) -> int | None:
        CliRunner().invoke(app, ["verify", str(a), "--level", "0", *words])
        kept = VerificationCache.here().get(a)
        return None if kept is None else kept.level

    assert verified("--expect-root", "0" * 64) is None
    assert verified() == 0
    assert verified("--expect-root", "0" * 64) == 0, "the same files"
    (a / "README.md").write_text("changed\n")
    assert verified("--expect-root", "0" * 64) == -1, "other files"
