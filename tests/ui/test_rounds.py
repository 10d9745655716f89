"""Improvements of a folder: their rounds with links to runs and samples, finished or not."""

import json
from pathlib import Path

import pytest

from tests.reports.parsed_page import Page
from tests.samples.making import draw
from tests.ui.making import client, improvement
from workings.runs.improve import REQUEST, ImproveFolder
from workings.runs.improve_result import RESULT


def finish(folder: ImproveFolder, sentence: str) -> None:
    """What is written last."""
    (folder.out / RESULT).write_text(json.dumps({"sentence": sentence}))


def test_rounds_are_shown_with_links_to_runs_and_samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = improvement(tmp_path / "better")
    finish(folder, "One round took the model from 50 to 90.")
    page = client(tmp_path, monkeypatch)
    found = page.get("/api/rounds/better").json()
    assert (found["asked"], found["finished"], found["verdict"]) == (2, True, "better")
    start, first = (row["values"] for row in found["rounds"])
    assert (start["name"], start["accuracy"], start["learned"], start["change"]) == ("start", 0.5, -1, "")
    assert (first["name"], first["accuracy"], first["learned"]) == ("1", 0.9, 5)
    assert first["change"].startswith("+40.0 points (95 % interval ")
    counts = json.loads((folder.samples(1) / "selection.json").read_text())["counts"]
    assert (first["never"], first["sometimes"], first["always"]) == tuple(
        counts[key] for key in ("never", "sometimes", "always"))
    text = page.get("/rounds/better").text
    shown = Page(text)
    assert shown.open == []
    for words in ("One round took the model", "the last round compared with the start: better", "90.0 %",
                  "+40.0 points",
                  f"workings verify {folder.out.resolve()}"):
        assert words in shown.text, words
    assert [a.get("aria-label") for a in shown.named("svg") if a.get("role") == "img"], "the figure says its numbers"
    links = {a["href"] for a in shown.named("a")}
    wanted = {"/run/better/runs/round_1", "/run/better/samples/for_round_1",
              "/compare?run=better/runs/round_0&run=better/runs/round_1"}
    assert wanted <= links
    assert [page.get(link).status_code for link in sorted(wanted)] == [200, 200, 200]
    assert page.get("/api/runs").json()["improvements"] == [
        {"name": "better", "sentence": "One round took the model from 50 to 90.", "problem": ""}]
    listed = Page(page.get("/").text)
    assert "better, round by round One round took the model" in listed.text
    assert "/rounds/better" in {a["href"] for a in listed.named("a")}


def test_the_folder_itself_may_be_an_improvement(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    improvement(tmp_path / "better")
    page = client(tmp_path / "better", monkeypatch)
    listed = Page(page.get("/").text)
    assert listed.open == []
    for words in ("better, round by round the last round compared with the start: better", "Not finished",
                  "Accuracy by round", "90.0 %", "3 of 3 runs"):
        assert words in listed.text, words
    assert {"/rounds/", "/run/runs/round_1", "/run/samples/for_round_1"} <= {a["href"] for a in listed.named("a")}
    shown = page.get("/rounds/")
    assert shown.status_code == 200
    assert "Not finished" in shown.text
    assert "/run/runs/round_1" in shown.text
    assert page.get("/api/rounds/").json()["name"] == "."


def test_only_what_is_sealed_is_shown_while_it_is_made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = improvement(tmp_path / "better", (30,))
    draw(folder.samples(1))
    page = client(tmp_path, monkeypatch)
    found = page.get("/api/rounds/better").json()
    names = [row["values"]["name"] for row in found["rounds"]]
    assert (names, found["finished"], found["verdict"]) == (["start"], False, "")
    assert "/compare" not in page.get("/rounds/better").text


def test_a_damaged_improvement_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finish(improvement(tmp_path / "good"), "It helped.")
    damaged = improvement(tmp_path / "bad")
    (damaged.out / RESULT).write_text("{")
    page = client(tmp_path, monkeypatch)
    listed = Page(page.get("/").text).text
    assert "good, round by round It helped." in listed
    assert "bad, round by round rounds.json cannot be read" in listed
    assert page.get("/rounds/bad").status_code == 409
    (damaged.out / RESULT).unlink()
    (damaged.run(1) / "eval" / "items" / "predictions.jsonl").write_text("")
    assert page.get("/rounds/bad").status_code == 409
    assert page.get("/").status_code == 200
    alone = Page(client(damaged.out, monkeypatch).get("/").text).text
    assert "This improvement, round by round not finished" in alone
    assert "3 of 3 runs" in alone


def test_what_is_no_improvement_is_not_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "folder"
    improvement(folder / "better")
    improvement(tmp_path / "outside")
    (folder / "better" / REQUEST).rename(folder / "better" / "other.json")
    page = client(folder, monkeypatch)
    for name in ("better", "../outside", "%2e%2e/outside", "nothing", ""):
        assert page.get(f"/rounds/{name}").status_code == 404, name
    assert "round by round" not in page.get("/").text
    inside = client(tmp_path / "outside" / "runs", monkeypatch)
    assert "round by round" not in inside.get("/").text, "it is above the folder that is shown"
