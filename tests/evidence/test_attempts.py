"""The list of attempts: each run against the one next to it, and no line is missing."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.evidence import walk
from tests.evidence.fakes import copy
from tests.evidence.records import RecordOf
from tests.evidence.verdicts import said
from tests.record import synthetic
from workings.evidence.verify.checks.attempts import order_problems
from workings.record import attempts


def found(path: Path) -> tuple[str, str]:
    return said(path, level=1)["consistency.attempts"]


def test_each_run_is_held_against_the_list_beside_it(pristine: Path, tmp_path: Path) -> None:
    shutil.copytree(pristine, tmp_path / "quickstart" / "runs")
    synthetic.sealed_run(tmp_path / "first")
    assert found(tmp_path) == ("passed", "first: 1 starts listed, 1 of this run; "
                                         "quickstart/runs/tiny: 1 starts listed, 1 of this run")
    (tmp_path / "quickstart" / "runs" / "attempts.jsonl").unlink()
    assert found(tmp_path)[0] == "not_checked"


def test_starting_goes_on_beside_a_damaged_list(tmp_path: Path) -> None:
    (tmp_path / "attempts.jsonl").write_text("{\n")
    attempts.append(tmp_path, {"run": "a"})
    assert json.loads((tmp_path / "attempts.jsonl").read_text().splitlines()[1])["after"] == {
        "absent": "the lines before cannot be read"}


EARLY, LATE = "2026-11-26T06:00:00.000Z", "2026-11-26T08:00:00.000Z"


@pytest.mark.parametrize(("named", "words"), [
    (("early", "late"), ""), (("late", "early"), "names the start that is listed at"),
    (("early", "early"), "name one line"), (("late", "late"), "names the start that is listed at"),
    (("early", None), "does not name its line")])
def test_each_start_names_its_own_line(named: tuple[str | None, str | None], words: str) -> None:
    lines = {"early": {"started_at": EARLY}, "late": {"started_at": LATE}}
    events = [{"kind": kind, "time": time} | ({} if line is None else {"attempt": line})
              for kind, time, line in zip(("started", "resumed"), (EARLY, LATE), named, strict=True)]
    problems = "; ".join(order_problems(SimpleNamespace(events=events, starts=events), lines))
    assert (words in problems) if words else not problems


def test_a_copy_under_another_name_is_no_second_run(record_of: RecordOf) -> None:
    files, honest = record_of("chained")
    changed = dict(files)
    copy("tiny/", "twin/")(changed)
    before, after = ({check.id: f"{check.verdict}: {check.text}" for check in found.checks}["consistency.attempts"]
                     for found in (honest, walk.verified(walk.resealed(changed))))
    assert before == "passed: tiny: 4 starts listed, 1 of this run"
    assert after.startswith("not_checked: tiny: the same run as twin, under another name: one start and not two")
