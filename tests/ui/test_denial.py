"""Records made to hang the page or the report: what cannot be shown is a sentence, and the rest of the run stays."""

from pathlib import Path

import pytest

from tests.evidence.denials import DENIALS
from tests.ui.making import client, two_runs
from workings.errors import RecordError
from workings.record.layout import EVENTS, LOG, MANIFEST, METRICS
from workings.record.storage import MEMORY_VARIABLE
from workings.reports.html import write_report

LINK = "a link, and no plain file"


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    """A folder with two runs."""
    two_runs(tmp_path)
    return tmp_path / "runs"


@pytest.mark.parametrize(("denial", "said"), [
    (f"{METRICS} leads to /dev/zero", f"metrics.jsonl: {LINK}"), (f"{METRICS} is a pipe", "metrics.jsonl: a pipe"),
    (f"{EVENTS} leads to /dev/zero", f"events.jsonl: {LINK}"), (f"{LOG} leads to /dev/zero", ""),
    (f"{MANIFEST} is 4 GiB of holes", "run_manifest.json: 4,294,967,296 bytes"),
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


def test_a_log_that_would_fill_the_memory(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, "1")
    with (runs / "plain" / METRICS).open("ab") as log:
        log.write(b'{"step":7,"a":300}\n' * 10_000)
    page = client(runs, monkeypatch)
    answer = page.get("/api/curves/plain")
    assert answer.status_code == 409
    assert f"1 are allowed; {MEMORY_VARIABLE}=5 allows more" in answer.json()["error"]
    assert page.get("/api/curves/steps").status_code == 200


def test_of_a_thousand_evaluations_some_are_left_out(runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.ui.detail.MAX_PARSED_BYTES", 60_000)
    unit = runs / "plain/eval/items/eval_summary.json"
    for number in range(3):
        (runs / f"plain/eval/more_{number}").mkdir()
        (runs / f"plain/eval/more_{number}/eval_summary.json").write_bytes(unit.read_bytes())
    detail = client(runs, monkeypatch).get("/api/run/plain").json()["detail"]
    assert 0 < len(detail["evaluations"]) < 4
    assert any("is left out: it has more values than a page shows" in note for note in detail["notes"])
