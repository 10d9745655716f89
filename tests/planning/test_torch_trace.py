"""Plans of the PyTorch engine on cards that are not here: by trace, in a child, kept by digest."""

import subprocess
from pathlib import Path

import pytest

from tests.planning.planning_helpers import rewarded, shape
from workings.hardware.catalog import find_target
from workings.planning.plan import make_plan

pytest.importorskip("torch")
pytest.importorskip("transformers")


def test_a_plan_for_a_card_is_traced_once_and_judged_against_the_whole_card(
        tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WORKINGS_CACHE", str(tmp_path))
    asked, t4 = rewarded(engine="torch", device="gpu"), find_target("t4")
    made = make_plan(asked, shape(), t4)
    assert made.verdict.source == "traced"
    assert made.verdict.fits
    assert made.verdict.limit_bytes == t4.memory_bytes
    assert set(made.peaks) == {"step", "drawing", "log_probs"}
    assert made.verdict.peak_bytes == max(made.peaks.values())
    assert sum(part.size_bytes for part in made.parts) == made.verdict.peak_bytes
    assert any("under fake tensors" in reason for reason in made.reasons)
    assert not any("XLA" in reason for reason in made.reasons)
    monkeypatch.setattr(subprocess, "run", lambda *words, **options: pytest.fail("asked again"))
    assert make_plan(asked, shape(), t4).peaks == made.peaks
    assert len([*(tmp_path / "plans").iterdir()]) == len(made.peaks)
