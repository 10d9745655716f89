"""Verbs started from the page: checked first, shown as typed, stopped when asked, outliving the page."""

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.runs.runs_helpers import OTHER_PACKAGE
from tests.ui.making import client, two_runs
from workings.record.phase import process_start
from workings.ui import jobs


def finished(page: TestClient, identity: str) -> dict[str, Any]:
    """A job when it has ended."""
    while True:
        job: dict[str, Any] = page.get(f"/api/jobs/{identity}").json()
        if job["state"] != "running":
            return job
        time.sleep(0.05)


def test_verify_from_the_page_becomes_the_badge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs(tmp_path)
    page = client(tmp_path, monkeypatch)
    answer = page.post("/start/verify", data={"run": "runs/steps"}, follow_redirects=False)
    assert answer.status_code == 303
    job = finished(page, answer.headers["location"].rpartition("/")[2])
    assert job["command"] == f"workings verify {tmp_path.resolve() / 'runs/steps'}"
    assert job["answer"]["checks"]
    rows = {row["name"]: row["verified"] for row in page.get("/api/runs").json()["rows"]}
    assert rows["runs/steps"]["level"] == job["answer"]["level"]
    assert rows["runs/plain"] is None
    shown = page.get("/run/runs/steps?tab=checks").text
    assert job["answer"]["checks"][0]["id"] in shown
    later = client(tmp_path, monkeypatch)  # the page started again still knows
    assert later.get("/api/run/runs/steps").json()["row"]["verified"]["level"] == job["answer"]["level"]
    assert [found["id"] for found in later.get("/api/jobs").json()] == [job["id"]]


def test_nothing_is_started_that_was_not_checked(page: TestClient) -> None:
    for verb, fields in (
            ("train", {"recipe": "--help", "out": "x"}), ("train", {"recipe": "../outside.yaml", "out": "x"}),
            ("train", {"recipe": "smoke-tiny", "out": "../x"}), ("train", {"recipe": "smoke-tiny", "out": "-x"}),
            ("train", {"recipe": "smoke-tiny", "out": "runs/plain"}),
            ("train", {"recipe": "smoke-tiny", "out": "x", "overrides": "--force"}),
            ("eval", {"run": "runs/plain", "items": "../items.jsonl", "name": "x"}),
            ("eval", {"run": "runs/plain", "items": "eval", "name": "../../x"}), ("verify", {"run": ".."}),
            ("quickstart", {"out": "/tmp/elsewhere"})):
        answer = page.post(f"/api/{verb}", data=fields)
        assert (answer.status_code, bool(answer.json()["error"])) == (422, True), (verb, fields)
    assert page.post("/plan", data={"recipe": "smoke-tiny", "target": "nowhere"}).status_code == 422
    assert page.get("/api/jobs").json() == []


@pytest.mark.skipif(shutil.which("ps") is None, reason="needs ps")
@pytest.mark.parametrize("proc", [Path("/proc"), Path("/no-such-place")], ids=["linux", "macos"])
def test_a_process_is_known_by_its_start(proc: Path) -> None:
    child = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    first = process_start(child.pid, proc)
    assert first
    assert process_start(child.pid, proc) == first
    child.communicate(b"\n")
    assert process_start(child.pid, proc) == ""


def test_training_is_stopped_with_a_checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # An engine that sleeps between its steps: a real one would take a core until it is stopped.
    monkeypatch.setenv("PYTHONPATH", str(OTHER_PACKAGE))
    monkeypatch.setenv("UNIGRAM_SECONDS", "0.1")
    page = client(tmp_path, monkeypatch)
    job = page.post("/api/train", data={"recipe": "smoke-tiny", "out": "long",
                                        "overrides": "training.steps=100000\nengine=unigram"}).json()
    row: dict[str, Any] = {}
    while not row.get("seconds_left"):  # said from the third step on
        rows = page.get("/api/runs").json()["rows"]
        row = rows[0] if rows else {}
        assert page.get(f"/api/jobs/{job['id']}").json()["state"] == "running"
        time.sleep(0.3)
    assert row["state"] == "running"
    assert page.post(f"/jobs/{job['id']}/stop", follow_redirects=False).status_code == 303
    ended = finished(page, job["id"])
    assert (ended["state"], ended["code"], ended["answer"]["status"]) == ("stopped", 130, "interrupted")
    row = page.get("/api/runs").json()["rows"][0]
    assert (row["name"], row["state"]) == ("long", "interrupted")
    assert list((tmp_path / "long" / "checkpoints").glob("step_*/COMMIT.json"))
    assert page.post(f"/jobs/{job['id']}/stop").status_code == 422

    # what the page starts next from this run: its steps again, and questions
    monkeypatch.setattr(jobs, "PROGRAM", ["true"])
    assert "This run has not been evaluated here yet" in page.get("/run/long?tab=scorecard").text
    run = tmp_path.resolve() / "long"
    for verb, fields, words in (("replay", {}, f"verify {run} --level 3"), (
            "eval", {"items": "eval", "name": "items"}, f"eval {run} --items eval --out {run}/eval/items")):
        assert page.post(f"/api/{verb}", data={"run": "long", **fields}).json()["command"] == f"workings {words}"
