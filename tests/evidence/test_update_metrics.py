"""Numbers of an update that learned from a rollout follow from the recorded log probabilities."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import reseal
from tests.evidence.rewarded import NEW_TOKENS, rewarded_run
from tests.evidence.verdicts import failed
from workings.evidence.verify import verify
from workings.evidence.verify.checks.update_metrics import bound_problems

METRICS = "train/metrics.jsonl"
ONE_UPDATE = {"group": 4, "max_new_tokens": NEW_TOKENS, "updates": 1}
CHECK = "consistency.rollouts"
LINE = {"step": 3, "seconds": 0.5, "drawing_seconds": 0.25, "clip_fraction": 0.5, "kl_behavior": 0.0}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return rewarded_run(tmp_path_factory.mktemp("runs") / "tiny", algorithm={"name": "grpo", **ONE_UPDATE})


@pytest.mark.parametrize("algorithm", [
    {"name": "grpo"}, {"name": "dr_grpo"}, {"name": "cispo"}, {"name": "gspo"}, {"name": "dapo", "max_resamples": 3},
    # A bound outside of every ratio of a fresh completion.
    {"name": "rloo", "clip_high": 1e-6, "clip_low": 1e-6}])
def test_an_honest_update_of_every_algorithm_passes(tmp_path: Path, algorithm: dict[str, Any]) -> None:
    found = verify(rewarded_run(tmp_path / "tiny", algorithm={**ONE_UPDATE, **algorithm}), level=1)
    assert found.failed == 0, [one.text for one in found.checks if one.verdict == "failed"]


@pytest.mark.parametrize(("name", "value"), [
    ("loss", 5.0), ("entropy", 0.9), ("clip_fraction", 0.5), ("kl_behavior", 0.3), ("kl_behavior", -0.1),
    ("mismatch_ratio", 1.0), ("mismatch_ratio", 0.5), ("drawing_seconds", 999.0), ("drawing_seconds", -1.0),
    ("entropy", "low")])
def test_a_number_that_does_not_follow_is_caught(honest: Path, tmp_path: Path, name: str, value: Any) -> None:
    run = tmp_path / "tiny"
    shutil.copytree(honest, run)
    shutil.copy(honest.parent / "attempts.jsonl", tmp_path)
    rows = [json.loads(text) for text in (run / METRICS).read_text().splitlines()]
    assert rows[1][name] != value
    reseal.edit_lines(run / METRICS, lambda rows: [
        row | ({name: value} if row["step"] == 2 else {}) for row in rows])
    reseal.reseal(run)
    assert CHECK in failed(run)


@pytest.mark.parametrize("change", [
    {"drawing_seconds": 0.6}, {"clip_fraction": 1.5}, {"clip_fraction": -0.5}, {"kl_behavior": float("nan")},
    {"kl_reference": True}])
def test_no_update_has_such_a_number(change: dict[str, Any]) -> None:
    assert bound_problems(LINE) == []
    assert len(bound_problems(LINE | change)) == 1
