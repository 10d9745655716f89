"""Fakes of every kind about records of every kind, sealed again: the check that finds each, or the mark."""

import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from tests.evidence import fakes_about_runs, fakes_about_small_runs, fakes_elsewhere, generated_fakes, walk
from tests.evidence.fakes import Fake, Table, add, copy, gone, outcome, put, together, without
from tests.evidence.records import Record, RecordOf
from workings.cli.verify import verification_text
from workings.evidence.verify.coverage_table import KINDS as UNIT_KINDS
from workings.evidence.verify.coverage_table import rows_of, rows_of_field
from workings.evidence.verify.registry import CHECKS
from workings.evidence.verify.unchecked_fields import NO_FILE, unchecked_fields

KINDS: dict[str, Table] = {**fakes_about_runs.KINDS, **fakes_about_small_runs.KINDS, **fakes_elsewhere.KINDS,
                           **fakes_about_runs.ENDS}
SLOW = {"pairs", "teacher", "top_tokens", "held_out", "small_pack", "samples"}
"""Records that train with JAX, and that take seconds to verify."""
ONLY_PROOF = {"adapters", "quickstart"}
"""Kinds of records whose fakes only `proof/fakes.py` tries, all of them."""
ELSEWHERE = {
    "integrity.readable": "test_hostile", "integrity.names": "test_mutations", "integrity.sealed": "test_mutations",
    "integrity.sums": "test_mutations", "integrity.anchor": "test_fakes", "attestation.trust": "test_sign",
    "consistency.drawn_from": "test_drawn_from", "consistency.environment": "test_episodes",
    "recompute.episodes": "test_episodes",
    **dict.fromkeys(("replay.steps", "replay.controls", "replay.predictions", "replay.coverage"), "test_replay")}
"""Modules with the fakes of the other checks."""
SOME = 6
"""Generated fakes of each kind that are told here."""
NOT_THERE = "(it is not there, and this version always writes it)"


@pytest.fixture
def record(record_of: RecordOf) -> Record:
    """A real run of a small engine, with its evaluation."""
    return record_of("run")


def marks(kind: str) -> list[pytest.MarkDecorator]:
    return [pytest.mark.full] if kind in ONLY_PROOF else [pytest.mark.slow] if kind in SLOW else []


@pytest.mark.parametrize(("kind", "name"), [
    pytest.param(kind, name, marks=marks(kind)) for kind, table in KINDS.items() for name in table])
def test_found_or_named(record_of: RecordOf, kind: str, name: str) -> None:
    """Where a check has to find it, that one is made and those of the sums; `proof/fakes.py` makes all."""
    fake, expected = KINDS[kind][name]
    ids = expected.partition(": ")[0].split()
    said = outcome(*record_of(kind), fake, only=(
        {*ids, *(check for check in CHECKS if check.startswith("integrity"))} if {*ids} <= CHECKS.keys() else ()))
    assert said.problem(expected) == ""
    assert expected.startswith("integrity") or not any(check.startswith("integrity") for check in said.failed), \
        "the sums are right: the content is false"


def test_what_no_check_of_a_small_run_finds_an_anchor_does(record_of: RecordOf) -> None:
    """Consistent in itself: levels 0 to 2 say so and do not say more."""
    files, honest = record_of("small")
    assert walk.resealed(files) == files, "the forger's tools are right: without a fake, nothing fails"
    for name, fake in fakes_about_small_runs.CONSISTENT.items():
        changed = dict(files)
        fake(changed)
        found = walk.verified(walk.resealed(changed))
        assert (name, found.failed, found.level) == (name, 0, honest.level)
        anchored = walk.verified(walk.resealed(changed), expect_root=honest.root)
        assert {check.id for check in anchored.checks if check.verdict == "failed"} == {"integrity.anchor"}, name


# --- fakes that follow from the record ----------------------------------------------------------------------------

@pytest.mark.slow
def test_fakes_about_every_file(record: Record) -> None:
    told = generated_fakes.of_files(record[0])
    assert len(told) > 450
    assert {name.partition(":")[0] for name in told} >= {
        name for name in record[0] if not name.endswith((*generated_fakes.SEALED, "SHA256SUMS"))}
    chosen = random.Random(17).sample(sorted(told), 4 * SOME)
    assert [name for name in chosen if outcome(*record, told[name], whole_files=True).word == "missed"] == []


@pytest.mark.slow
@pytest.mark.parametrize("kind", generated_fakes.KINDS)
def test_fakes_about_every_field(record: Record, kind: str) -> None:
    told = dict(generated_fakes.of_fields(record[0], kind))
    assert len(told) > 140
    drawn = random.Random(17).sample(sorted(told), len(told))
    chosen = list(islice((name for name in drawn if generated_fakes.changes(record[0], told[name])), SOME))
    assert [name for name in chosen if outcome(*record, told[name], made_again=True).word == "missed"] == []


def steps_by_row(record: Record) -> dict[Any, walk.Step]:
    """One field of each row of the table that the record has."""
    return {next(iter(rows_of_field(unit, file, step.field)), None): step for step in reversed(walk.steps_of(record[0]))
            for _, unit, file in [walk.unit_of(step.name, record[0])]}


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "rows"), [("run", 170), ("pairs", 10), ("samples", 5)])
def test_each_row_of_the_table_finds_a_change_of_its_field(record_of: RecordOf, kind: str, rows: int) -> None:
    """Every fifth row, of other records only rows that the run lacks; `proof/witnesses.py` changes all fields."""
    record, told = record_of(kind), {} if kind == "run" else steps_by_row(record_of("run"))
    steps = [step for row, step in steps_by_row(record).items() if row not in told]
    assert len(steps) > rows
    assert [problem for step in steps[::5] if (problem := generated_fakes.witness_problem(record, step))] == []


def test_every_check_has_a_fake_that_it_finds() -> None:
    """In a table here, or in a module about what no file in memory can hold."""
    tabled = {name for table in KINDS.values() for _, expected in table.values()
              for name in expected.partition(": ")[0].split()}
    assert set(CHECKS) - tabled == set(ELSEWHERE)
    for check, module in ELSEWHERE.items():
        assert check in Path(__file__).with_name(f"{module}.py").read_text(), check


# --- what the answer names ----------------------------------------------------------------------------------------

def test_every_row_names_a_check_that_there_is() -> None:
    rows = [row for kind in UNIT_KINDS for row in rows_of(kind)]
    assert {row.check for row in rows} - set(CHECKS) == {""}
    assert all(row.check or row.reason for row in rows)


def said_of(record: Record, *changes: Fake) -> walk.Verification:
    """What `verify` reports about the record with these changes."""
    changed = dict(record[0])
    together(*changes)(changed)
    return walk.verified(walk.resealed(changed))


def test_a_check_that_was_not_made_stands_for_nothing(record: Record) -> None:
    assert len(walk.verified(record[0], 0).unchecked_fields) > len(record[1].unchecked_fields)
    opened = walk.load(walk.MemoryTree(record[0]))
    assert {one.why for one in unchecked_fields(opened, {}) if one.file == "data/rows.jsonl"
            and one.field == "status"} == {"consistency.rows was not made"}


def test_what_nobody_knows_or_what_is_gone_is_named(record: Record) -> None:
    found = said_of(record, add("a/RESULTS.md", b"98 %\n"), add("a/env/more.json", b'{"best":1}\n'),
                    gone("a/train/training_log.txt"), without("a/train/metrics.jsonl", "*.positions"),
                    without("a/train/events.jsonl", "*.attempt"))
    assert {f"a/RESULTS.md ({NO_FILE})", f"a/train/training_log.txt {NOT_THERE}",
            f"a/train/metrics.jsonl: positions {NOT_THERE}",
            f"a/train/events.jsonl: attempt {NOT_THERE}"} <= {one.text for one in found.unchecked_fields}
    assert ("env/more.json", "best") in {(one.file, one.field) for one in found.unchecked_fields}
    assert found.to_json()["said"][0].keys() == {"unit", "file", "field", "why"}


def test_a_file_of_more_fields_than_are_looked_at_is_named(record: Record, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("workings.evidence.verify.unchecked_fields.MAX_REMEMBERED", 3)
    found = walk.verified(record[0])
    assert found.failed == 0
    assert "a/data/digests.json (it has too many fields to list)" in {
        each.text for each in found.unchecked_fields}


def test_what_is_announced_is_named_only_where_no_evaluation_answers_it(record: Record) -> None:
    for found, named in ((record[1], False), (said_of(record, gone("a/eval/")), True)):
        assert any((one.file, one.field) == ("train/events.jsonl", "decoding.seed")
                   for one in found.unchecked_fields) is named


def test_an_announced_evaluation_that_is_gone_keeps_level_two_from_being_reached(record: Record) -> None:
    # Another evaluation of the same run stays, whose scores can be computed again.
    found = said_of(record, copy("a/eval/items/", "a/eval/later/"), gone("a/eval/items/"))
    assert (found.failed, found.level, found.outcome) == (0, 1, "not reached")
    said = next(line for line in verification_text(found, verbose=False).splitlines() if "recompute.items" in line)
    assert said.startswith("not checked  ")
    missing = "an evaluation of 10 items was announced before the first step and is not here"
    assert said.endswith(f"{missing}: removed, or not made yet")
    # Nothing is missing where the evaluation is here, or where the run did not end.
    for found in (record[1], said_of(record, gone("a/eval/"), put("a/run_manifest.json", "status", "interrupted"))):
        assert not any(missing[20:] in one.text for one in found.checks)
