"""Questions to a run from its page: put by `workings ask`, answers next to each other, kept as items."""

import json
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.ui.making import client, two_runs
from workings.ui import jobs
from workings.ui.site import Site

WRONG = {"completion": "<reasoning>\n1+1=2\n8+9+1=17\n</reasoning>\n<answer>17</answer>", "finish_reason": "stop",
         "tokens": 9, "wrong_step": {"start": 18, "end": 26, "line": 2, "lines": 2, "written": "8+9+1=17",
                                     "expected": "18"}}


def test_answers_come_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    two_runs(tmp_path / "folder")
    page = client(tmp_path / "folder", monkeypatch)
    # In place of the verb: a program that says nothing and ends; what it says is written below, as the verb writes it.
    monkeypatch.setattr(jobs, "PROGRAM", ["true"])
    answer = page.post("/ask/runs/steps", data={"question": "-8 + 9\r\n= ?"}, follow_redirects=False)
    assert answer.headers["location"] == "/run/runs/steps?tab=ask"
    job = page.get("/api/jobs").json()[0]
    assert job["command"] == (f"workings ask --base --pieces --max-new-tokens 256 -- {tmp_path / 'folder/runs/steps'} "
                              "'-8 + 9\n= ?'")
    folder = next(tmp_path.rglob("job.json")).parent
    assert json.loads((folder / "job.json").read_bytes())["argv"][1:3] == ["ask", "--json"]

    while not (folder / "exit.json").exists():
        pass
    (folder / "exit.json").unlink()
    (folder / "pid.json").unlink(missing_ok=True)
    # After it the other model's pieces, more than the page shows of any other command.
    pieces = "".join(json.dumps({"model": "untrained", "piece": f"{n} "}) + "\n" for n in range(3_000))
    (folder / "stdout.txt").write_text(json.dumps(WRONG) + "\n" + pieces)
    found = page.get("/api/ask/runs/steps").json()["questions"][0]
    assert (found["text"], found["state"]) == ("-8 + 9\n= ?", "running")
    assert found["trained"]["wrong_step"] == "first wrong equation, line 2 of 2: 8+9+1=17 (correct: 18)"
    assert found["untrained"] is None
    shown = page.get("/run/runs/steps?tab=ask").text
    assert '<span class="wrong-step">8+9+1=17</span>' in shown
    assert [f'data-pieces="{model}"' in shown for model in ("trained", "untrained")] == [False, True]
    assert f'data-asked="{found["job"]}"' in shown

    both = WRONG | {"base": {"completion": "<b>", "finish_reason": "length", "tokens": 1}}
    (folder / "stdout.txt").write_text(f"{json.dumps(WRONG)}\n{json.dumps(both)}\n")
    (folder / "exit.json").write_text('{"code": 0, "finished_at": "2026-11-24T10:00:00.000Z"}')
    assert page.get("/api/ask/runs/steps").json()["questions"][0]["untrained"]["text"] == "<b>"
    assert "&lt;b&gt;" in page.get("/run/runs/steps?tab=ask").text
    assert page.get("/api/ask/runs/plain").json()["questions"] == []


def test_pieces_are_sent_from_a_place_in_the_output(page: TestClient, tmp_path: Path) -> None:
    folder = Site.over(tmp_path).jobs.place / "1"
    folder.mkdir(parents=True)
    written = [json.dumps({"model": "trained", "piece": piece}) + "\n" for piece in ("47", "\u2028+\n")]
    (folder / "job.json").write_text(json.dumps(dict.fromkeys(("verb", "command", "started_at", "subject"), "")
                                                | {"arguments": []}))
    (folder / "exit.json").write_text('{"code": 0}')
    (folder / "stdout.txt").write_text("a library's words\n" + "".join(written) + written[0][:9])  # still being written
    first, second = map(json.loads, written)
    found, end = page.get("/api/jobs/1/pieces").json(), 18 + sum(map(len, written))
    assert found == {"running": False, "end": end, "pieces": [first, second]}
    assert page.get(f"/api/jobs/1/pieces?after={18 + len(written[0])}").json()["pieces"] == [second]
    assert page.get(f"/api/jobs/1/pieces?after={end}").json() == {"running": False, "end": end, "pieces": []}
    assert page.get("/api/jobs/none/pieces").status_code == 404


def test_no_question_starts_nothing(page: TestClient) -> None:
    for question in ("   ", "x" * 4_001):
        assert page.post("/ask/runs/steps", data={"question": question}).status_code == 422
    assert page.get("/api/jobs").json() == []
