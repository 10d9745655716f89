"""Loss by token on a run's page: asked by `workings data surprise`, shaded where the answer is there."""

import json
from pathlib import Path

import pytest

from tests.reports.parsed_page import Page
from tests.ui.making import client, two_runs
from workings.ui import jobs

ANSWER = {"run": "steps", "step": 40, "row": "<a>", "mean_loss": 2.5, "tokens": [
    {"text": "<b>", "learned": False, "control": True}, {"text": "7", "learned": True, "control": False, "loss": 5.0},
    {"text": "8", "learned": True, "control": False, "loss": 0.0}]}


def test_a_row_is_asked_about_and_shaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs(tmp_path / "folder")
    page = client(tmp_path / "folder", monkeypatch)
    monkeypatch.setattr(jobs, "PROGRAM", ["true"])
    assert page.get("/api/surprise/runs/steps").json() == {"state": "", "found": {}, "problem": ""}
    assert "Which tokens surprise it" in page.get("/run/runs/steps?tab=surprise").text
    answer = page.post("/surprise/runs/steps", data={"row": " --x "}, follow_redirects=False)
    assert answer.headers["location"] == "/run/runs/steps?tab=surprise"
    assert page.get("/api/jobs").json()[0]["command"] == (
        f"workings data surprise --row=--x -- {tmp_path / 'folder/runs/steps'}")
    folder = next(tmp_path.rglob("job.json")).parent
    while not (folder / "exit.json").exists():
        pass
    (folder / "stdout.txt").write_text(json.dumps(ANSWER) + "\n")
    shown = Page(page.get("/run/runs/steps?tab=surprise").text)
    assert shown.open == []
    assert [(a["class"], a["title"]) for a in shown.named("span") if "title" in a] == [
        ("shade s3", "0.7 %"), ("shade s0", "100.0 %")]
    for words in ("<a>: mean loss 2.500 after step 40", "very surprising: under 1 % 1", "<b>"):
        assert words in shown.text, words
    (folder / "stdout.txt").write_text("")
    (folder / "stderr.txt").write_text("given: no such row")
    (folder / "exit.json").write_text('{"code": 2, "finished_at": "2026-11-24T10:00:00.000Z"}')
    assert "given: no such row" in page.get("/run/runs/steps?tab=surprise").text
