"""Questions split off an import: how many, which, and that nothing of them stays in the traces."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.data.making import imported
from workings.data.checking.overlap import find_leaks
from workings.data.importing import hold_out
from workings.data.importing.run import ImportResult
from workings.data.traces import read_traces
from workings.errors import RequestError
from workings.scoring.items import read_items

PLACES = ("harbour", "meadow", "station", "orchard", "library", "quarry", "bakery", "theatre", "garden", "market")


def question(k: int) -> str:
    return (f"At the {PLACES[k % 10]} {k + 3} people wait in the morning and {2 * k + 5} more arrive before noon, so "
            "how many wait then?")


def record(k: int, prompt: str = "", **more: Any) -> dict[str, Any]:
    return {"id": f"t{k}", "prompt": prompt or question(k), "steps": [f"{k + 3}+{2 * k + 5}={3 * k + 8}"],
            "answer": str(3 * k + 8), "section": "carry" if k % 4 == 0 else "core", **more}


def run(tmp_path: Path, records: list[dict[str, Any]], n: int, seed: int = 0, kind: str = "traces") -> ImportResult:
    return imported(tmp_path, kind, *records, on_error="fail", hold_out=n, seed=seed)[0]


def test_items_and_traces_are_the_file(tmp_path: Path) -> None:
    result = run(tmp_path, [record(k) for k in range(80)], 20)
    held = result.held_out
    items, traces = read_items(Path(held["path"])), read_traces(result.out)
    assert held["path"].endswith("/out.items.jsonl")
    assert (result.read, result.written, result.rejected, held["items"], held["left_out"]) == (80, 60, 0, 20, 0)
    assert {item.id for item in items} | {trace.id for trace in traces} == {f"t{k}" for k in range(80)}
    assert {item.section for item in items} == {"carry", "core"}
    assert all(item.expected_answer == str(3 * int(item.id[1:]) + 8) for item in items)
    assert not list(tmp_path.glob(".*")), "nothing of the work in between stays"
    assert not (tmp_path / "out.left_out.jsonl").exists()


def test_an_import_that_is_cut_off_between_two_files_leaves_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch
                                                                 ) -> None:
    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(hold_out, "file_digest", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tmp_path, [record(k) for k in range(80)], 20)
    assert [path.name for path in tmp_path.iterdir()] == ["file.jsonl"]


def test_the_seed_decides_and_the_order_of_the_file_does_not(tmp_path: Path) -> None:
    def ids(records: list[dict[str, Any]], seed: int) -> set[str]:
        return {item.id for item in read_items(Path(run(tmp_path, records, 20, seed).held_out["path"]))}

    records = [record(k) for k in range(80)]
    assert ids(records, 0) == ids(records[::-1], 0) != ids(records, 1)


def test_what_gives_a_held_out_question_away_is_left_out(tmp_path: Path) -> None:
    records = [record(k) for k in range(40)]
    names = ("evening", "summer", "winter")
    copies = [
        *(record(100 + k, question(k)) for k in range(40)),
        *(record(200 + k, question(k).upper().replace(",", "")) for k in range(40)),
        *(record(300 + k, question(k).replace("morning", names[k % 3])) for k in range(40)),
        *(record(400 + k, f"A friend asks me this. {question(k)} Please show your work.") for k in range(40)),
        *(record(500 + k, "And then?", history=[{"role": "user", "content": question(k)},
                                                {"role": "assistant", "content": "Wait."}]) for k in range(40)),
    ]
    for each in copies:
        each["answer"] = str(3 * (int(each["id"][1:]) % 100) + 8)
    result = run(tmp_path, [*records, *copies], 10)
    held = result.held_out
    chosen = {int(item.id[1:]) % 100 for item in read_items(Path(held["path"]))}
    left = {json.loads(line)["id"]: json.loads(line)["reason"]
            for line in (tmp_path / "out.left_out.jsonl").read_text().splitlines()}
    assert not [trace.id for trace in read_traces(result.out) if int(trace.id[1:]) % 100 in chosen]
    assert held["left_out"] == len(left) == result.read - result.written - held["items"]
    assert {reason.split(":")[0] for reason in left.values()} == {"leak", "near_duplicate", "ngram_leak"}
    entries = list(enumerate(read_traces(result.out)))
    assert not list(find_leaks(entries, {item.prompt: item.id for item in read_items(Path(held["path"]))}))


def test_only_questions_of_their_own_are_held_out(tmp_path: Path) -> None:
    turns = [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hello."}]
    records = [record(0), record(1), record(2, history=turns), record(3, question(4)), record(4)]
    records[3]["answer"] = "another one"
    with pytest.raises(RequestError, match="at most 2: this number of the 5 traces"):
        run(tmp_path, records, 3)
    assert [path.name for path in tmp_path.iterdir()] == ["file.jsonl"]
    assert read_items(Path(run(tmp_path, records, 1).held_out["path"]))[0].id in ("t0", "t1")


def test_other_numbers_are_another_question(tmp_path: Path) -> None:
    result = run(tmp_path, [record(k, f"What is {k}+7?", section="") for k in range(50)], 10)
    assert (result.written, result.held_out["left_out"]) == (40, 0)


def test_a_hold_out_that_cannot_be_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RequestError, match="no answer that an item could expect"):
        run(tmp_path, [record(0)], 1, kind="preferences")
    with pytest.raises(RequestError, match="leaves traces to learn from"):
        run(tmp_path, [record(0), record(1, question(0).replace("noon", "night"))], 1)
    (tmp_path / "out.items.jsonl").write_text("mine")
    with pytest.raises(RequestError, match="already exists"):
        imported(tmp_path, "traces", record(0), hold_out=1, force=False)
    assert (tmp_path / "out.items.jsonl").read_text() == "mine"
    assert not (tmp_path / "out.jsonl").exists()
