"""The list of attempts: each run against the one next to it, and no line is missing."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from tests.evidence import reseal
from tests.evidence.verdicts import said
from tests.record import synthetic
from workings.evidence.verify.checks.attempts import order_problems
from workings.record import attempts
from workings.record.reader import RunRecord


def found(path: Path) -> tuple[str, str]:
    return said(path, level=1)["consistency.attempts"]


@pytest.fixture
def chained(pristine: Path, tmp_path: Path) -> Path:
    """The run as the third of three starts, its first event naming its line."""
    shutil.copytree(pristine / "tiny", tmp_path / "runs" / "tiny")
    for name in ("before", "between"):
        attempts.append(tmp_path / "runs", {"run": name})
    run = tmp_path / "runs" / "tiny"
    digest = RunRecord.open(run).manifest.config_digest
    mine = attempts.append(run.parent, {"run": "tiny", "config_digest": digest})
    attempts.append(run.parent, {"run": "after"})
    reseal.edit_lines(run / "train/events.jsonl", lambda rows: [rows[0] | {"attempt": mine}, *rows[1:]])
    reseal.reseal(run)
    return run


def test_each_run_is_held_against_the_list_beside_it(pristine: Path, tmp_path: Path) -> None:
    shutil.copytree(pristine, tmp_path / "quickstart" / "runs")
    synthetic.sealed_run(tmp_path / "first")
    assert found(tmp_path) == ("passed", "first: 1 starts listed, 1 of this run; "
                                         "quickstart/runs/tiny: 1 starts listed, 1 of this run")
    (tmp_path / "quickstart" / "runs" / "attempts.jsonl").unlink()
    assert found(tmp_path)[0] == "not_checked"


def test_a_whole_list(chained: Path) -> None:
    assert found(chained) == ("passed", "4 starts listed, 1 of this run")
    assert found(chained.parent) == ("passed", "tiny: 4 starts listed, 1 of this run")


def without(number: int) -> Callable[[list[dict]], list[dict]]:
    return lambda rows: rows[:number] + rows[number + 1:]


def chained_again(rows: list[dict]) -> list[dict]:
    """The line before taken out, and the digests of all that follow rebuilt."""
    last = attempts.line_digest(rows[0])
    for row in (rows := without(1)(rows))[1:]:
        row["after"] = last
        last = attempts.line_digest(row)
    return rows


@pytest.mark.parametrize(("change", "words"), [
    (without(0), "line 1 of attempts.jsonl follows a missing line"),
    (without(1), "line 2 of attempts.jsonl follows a missing line"),
    (without(2), "lists no start of 'tiny'"),
    (lambda rows: [rows[0] | {"run": "other"}, *rows[1:]], "line 2 of attempts.jsonl follows a missing line"),
    (chained_again, "lacks or changed a line that the run's events name"),
], ids=["first gone", "second gone", "its own gone", "renamed", "chained again"])
def test_a_changed_list(chained: Path, change: Callable[[list[dict]], list[dict]], words: str) -> None:
    reseal.edit_lines(chained.parent / "attempts.jsonl", change)
    verdict, text = found(chained)
    assert verdict == "failed"
    assert words in text


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


def test_a_copy_under_another_name_is_no_second_run(chained: Path) -> None:
    shutil.copytree(chained, chained.with_name("twin"))
    verdict, text = found(chained.parent)
    assert verdict == "not_checked"
    assert "tiny: the same run as twin, under another name: one start and not two" in text
