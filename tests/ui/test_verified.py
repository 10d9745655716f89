"""A verdict is kept for the very files that it was said of."""

import os
import shutil
from pathlib import Path

from workings.ui.verified import VerifiedStore

ANSWER = {"level": 2, "passed": 1, "failed": 0, "not_checked": 0, "checks": [], "claims": []}


def test_another_run_with_the_same_sums_does_not_take_a_verdict_over(tmp_path: Path) -> None:
    honest, forged = tmp_path / "honest", tmp_path / "forged"
    honest.mkdir()
    (honest / "SHA256SUMS").write_text("ab  run_manifest.json\n")
    (honest / "run_manifest.json").write_text("{}")
    store = VerifiedStore(tmp_path / "cache")
    store.keep(honest, ANSWER)
    kept = store.of(honest)
    assert kept is not None
    assert kept.level == 2
    shutil.copytree(honest, forged)
    assert store.of(forged) is None
    # The honest run's place, with other bytes under its sums and the old times.
    facts = (honest / "run_manifest.json").stat()
    (forged / "run_manifest.json").write_text("[]")
    os.utime(forged / "run_manifest.json", ns=(facts.st_atime_ns, facts.st_mtime_ns))
    shutil.rmtree(honest)
    forged.rename(honest)
    assert store.of(honest) is None
