"""Notes: facts known only afterwards, sealed next to what was sealed before, told apart from what the run recorded."""

import json
from pathlib import Path

import pytest

from tests.evidence import reseal
from tests.evidence.verdicts import failed, failures
from workings.errors import RequestError
from workings.evidence.notes import parse_facts, write_note
from workings.evidence.verify import verify
from workings.record.seal import root_digest, seal_unit

FACTS = {"kaggle_notebook_version": "7", "kaggle_run_id": "a-1"}


def test_a_note_is_a_unit_of_its_own_and_touches_nothing(run: Path) -> None:
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    assert write_note(run, FACTS) == run / "notes" / "1"
    assert write_note(run, {"kaggle_notebook_version": "8"}) == run / "notes" / "2"
    assert {path: path.read_bytes() for path in before} == before
    notes = [json.loads((run / f"notes/{number}/note.json").read_bytes()) for number in (1, 2)]
    assert [note["facts"] for note in notes] == [FACTS, {"kaggle_notebook_version": "8"}]
    assert all(note["run"] == root_digest(run) for note in notes)
    assert sorted(path.name for path in run.parent.iterdir()) == ["attempts.jsonl", "tiny"]


def test_verification_checks_notes_and_says_that_they_were_said_afterwards(run: Path) -> None:
    write_note(run, FACTS)
    found = verify(run)
    assert found.failed == 0
    assert found.level == found.asked_level
    assert {one.id for one in found.checks} >= {"form.schema", "consistency.made_from"}
    said = next(claim for claim in found.claims if claim.startswith("notes/1"))
    assert "said afterwards" in said
    assert "kaggle_notebook_version = 7" in said


@pytest.mark.parametrize(("words", "says"), [
    (["seed=3"], "which the run itself recorded as '7'"),
    (["final_loss=0.1"], "which the run itself recorded"),
    (["kaggle_notebook_url=TODO"], "not a placeholder"),
    (["kaggle_run_id=hf_" + "a" * 30], "contains a token"),
    (["Version=7"], "small letters"),
    (["version"], "key=value"),
    (["a=1", "a=2"], "a twice"),
    ([], "no facts"),
])
def test_what_a_note_may_not_say(run: Path, words: list[str], says: str) -> None:
    with pytest.raises(RequestError, match=says):
        write_note(run, parse_facts(words))
    assert not (run / "notes").exists()


FORGED: dict[str, tuple[str, object, str]] = {
    "contradicts": ("facts", {"final_loss": "0.1"}, "consistency.made_from"),
    "of another run": ("run", "ab" * 32, "consistency.made_from"),
    "older than the run": ("written_at", "2020-01-01T00:00:00.000Z", "consistency.made_from"),
    "no facts": ("facts", {}, "form.schema"), "another key": ("score", 1, "form.schema")}


@pytest.mark.parametrize("name", FORGED)
def test_a_forged_note_is_caught(run: Path, name: str) -> None:
    key, value, check = FORGED[name]
    unit = write_note(run, FACTS)
    reseal.edit_json(unit / "note.json", lambda note: note | {key: value})
    assert "integrity.sums" in failed(run)
    reseal.reseal(unit)
    assert check in failed(run)


def test_a_note_of_another_run_is_caught(run: Path) -> None:
    unit = write_note(run, FACTS)
    reseal.reseal(unit, made_from="cd" * 32)
    assert "consistency.made_from" in failed(run)


def test_a_note_holds_nothing_else(run: Path) -> None:
    unit = write_note(run, FACTS)
    (unit / "more.txt").write_text("more")
    assert "integrity.files" in failed(run)
    (unit / "SEAL.json").unlink()
    (unit / "SHA256SUMS").unlink()
    seal_unit(unit, "notes", "complete", root_digest(run))
    assert failures(run) == {"form.schema": "notes/1: a note holds nothing but its facts"}


def test_a_file_where_notes_stand_is_extra(run: Path) -> None:
    (run / "notes").mkdir()
    (run / "notes" / "loose.json").write_text("{}")
    assert "integrity.files" in failed(run)


def test_a_note_that_was_killed_leaves_the_run_as_it_was(run: Path) -> None:
    staging = run.with_name("tiny.note.partial")
    staging.mkdir()
    (staging / "note.json").write_text("half")
    assert failed(run) == set()
    assert write_note(run, FACTS).name == "1"
    assert failed(run) == set()


def test_the_verb(run: Path, workings) -> None:
    done = workings("runs", "note", run, "kaggle_notebook_version=7", "--json")
    assert json.loads(done.stdout.splitlines()[-1]) == {
        "note": str(run / "notes/1"), "facts": {"kaggle_notebook_version": "7"}}
    refused = workings("runs", "note", run, "seed=3", check=False)
    assert refused.returncode == 2
    assert "expected: a fact that was unknown during the run" in refused.stderr
