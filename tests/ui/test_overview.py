"""The first tab of a run, and what its header offers: verdict, answers, Stop and Resume."""

import json
import sys
import time
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.reports.parsed_page import Page
from tests.ui.making import client
from workings.ui import jobs
from workings.ui.routes import plan


def test_a_run_opens_on_its_numbers_and_its_wrong_answers(page: TestClient) -> None:
    shown, row = Page(page.get("/run/runs/plain").text), page.get("/api/live/runs/plain").json()
    assert f"{row['accuracy']['n']} items" in shown.text
    assert f"for {row['steps']} steps" in shown.text
    items = page.get("/api/items/runs/plain").json()["rows"]
    assert [item["right"] for item in items] == sorted(item["right"] for item in items), "wrong ones first"
    assert shown.text.index(items[0]["id"]) < shown.text.index(items[4]["id"])
    assert items[5]["id"] not in shown.text, "five answers"


def test_an_unfinished_run_offers_its_own_resume(page: TestClient, tmp_path: Path,
                                                 monkeypatch: pytest.MonkeyPatch) -> None:
    seal = tmp_path / "runs/plain/SEAL.json"
    seal.write_text(json.dumps(json.loads(seal.read_text()) | {"status": "interrupted"}))
    monkeypatch.setattr(jobs, "PROGRAM", [sys.executable, "-c", "pass"])
    assert "Resume" in Page(page.get("/run/runs/plain").text).text
    assert "Resume" not in Page(page.get("/run/runs/steps").text).text
    answer = page.post("/start/resume", data={"run": "runs/plain"}, follow_redirects=False)
    job = page.get("/api/jobs").json()[0]
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job['id']}")
    started = job["command"]
    assert started.startswith("workings train ")
    assert started.endswith(f"--out {tmp_path.resolve()}/runs/plain --resume")


def test_rows_that_cannot_be_read_are_said_next_to_the_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = client(tmp_path, monkeypatch)
    answer = page.get("/data?recipe=nowhere&overrides=seed%3D3")
    assert answer.status_code == 422
    assert "a shipped recipe, or a recipe file in this folder" in Page(answer.text).text
    assert "seed=3" in answer.text


def test_the_table_of_what_fits_shows_my_machines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "published", lambda: ["gemma-2b"])  # of thirty
    page = client(tmp_path, monkeypatch)
    mine = Page(page.get("/fits?machines=t4,rtx4090").text).text
    assert all(name in mine for name in ("t4x2", "rtx4090"))
    assert "v5e-8" not in mine.partition("Method")[2]
    assert "No machine has such a name" in Page(page.get("/fits?machines=cray").text).text


def test_a_conversation_carries_its_earlier_turns(page: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    answer = json.dumps({"completion": "72", "finish_reason": "stop"})
    monkeypatch.setattr(jobs, "PROGRAM", [sys.executable, "-c", f"print({answer!r})"])
    first = page.post("/api/ask/runs/steps", data={"question": "What is 47+25?"}).json()["id"]
    while page.get(f"/api/jobs/{first}").json()["state"] == "running":
        time.sleep(0.1)
    second = page.post("/api/ask/runs/steps", data={"question": "And 3 more?", "follow": first, "temperature": "0.7"})
    assert "--temperature 0.7 --seed" in second.json()["command"]
    asked = page.get("/api/ask/runs/steps").json()["questions"][0]
    assert asked["history"] == [{"role": "user", "content": "What is 47+25?"}, {"role": "assistant", "content": "72"}]
    assert page.post("/api/ask/runs/steps", data={"question": "x", "follow": "0"}).status_code in (404, 422)
