"""Records made to hang the page or the report: what cannot be shown is a sentence, and the rest of the run stays."""

from pathlib import Path

import pytest

from tests.evidence.denials import DENIALS
from tests.ui.making import client, two_runs
from workings.errors import RecordError
from workings.record.layout import CONFIG, EVENTS, LOG, MANIFEST, METRICS
from workings.reports.html import write_report

LINK = "a link, and no plain file"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with two runs."""
    two_runs(tmp_path)
    return tmp_path / "runs"


@pytest.mark.parametrize(("denial", "said"), [
    (f"{METRICS} leads to /dev/zero", f"metrics.jsonl: {LINK}"), (f"{METRICS} is a pipe", "metrics.jsonl: a pipe"),
    (f"{METRICS} is 4 GiB of holes", "metrics.jsonl"), (f"{EVENTS} leads to /dev/zero", f"events.jsonl: {LINK}"),
    (f"{MANIFEST} is 4 GiB of holes", "run_manifest.json: 4,294,967,296 bytes"), (f"{LOG} leads to /dev/zero", ""),
    (f"{CONFIG} is 4 GiB of holes", "resolved.json: 4,294,967,296 bytes"),
])
def test_a_run_that_would_hang_the_page(runs: Path, monkeypatch: pytest.MonkeyPatch, denial: str, said: str) -> None:
    DENIALS[denial](runs / "plain")
    page = client(runs, monkeypatch)
    answer = page.get("/api/run/plain")
    assert answer.status_code == 200
    assert any(said in note for note in answer.json()["detail"]["notes"]) or not said
    assert len(page.get("/api/runs").json()["rows"]) == 2
    assert page.get("/api/curves/plain").status_code == (409 if METRICS in denial else 200)
    if METRICS in denial or MANIFEST in denial:
        with pytest.raises(RecordError, match=said):
            write_report(runs.with_name("report.html"), [runs / "plain"])


def test_predictions_that_would_hang_the_page(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    predictions = runs / "plain/eval/items/predictions.jsonl"
    predictions.unlink()
    predictions.symlink_to("/dev/zero")
    answer = client(runs, monkeypatch).get("/api/items/plain")
    assert (answer.status_code, answer.json()["error"]) == (409, "predictions.jsonl is missing")
