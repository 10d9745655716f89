"""Records made to harm their reader: nothing runs, nothing is written outside, time and memory are bounded."""

import json
import os
import shutil
import struct
from functools import partial
from pathlib import Path

import pytest

from tests.evidence import reseal, walk
from tests.evidence.denials import completion, zip_of_texts
from tests.evidence.doors import DOORS, MEBIBYTES, SECONDS, VERIFY
from tests.evidence.generated_fakes import HOSTILE, hostile_values, with_value
from tests.evidence.packs import overwritten
from tests.evidence.records import RecordOf
from tests.evidence.verdicts import failures as all_failures
from tests.evidence.verdicts import said
from workings.evidence.verify import limits, verify
from workings.evidence.verify import tree as trees
from workings.record.storage import MEMORY_VARIABLE

pytestmark = pytest.mark.slow  # together they take seconds


failures = partial(all_failures, level=0)


def test_an_archive_that_unpacks_to_far_more_than_it_is(run: Path, monkeypatch) -> None:
    place = zip_of_texts(100_000, 1)(run)
    assert "unpacks to" not in failures(place).get("integrity.readable", "")
    monkeypatch.setattr(trees, "MAX_ADDED_BYTES", 1 << 20)
    assert "1,048,576 more than it has are the most; if you trust it, unpack it" in failures(
        place)["integrity.readable"]


def test_more_text_than_is_looked_through(run: Path, monkeypatch) -> None:
    monkeypatch.setattr(limits, "TEXT_BYTES", 1000)
    verdict, text = said(run)["content.private"]
    assert verdict == "not_checked"
    assert "bytes, and at most 1,000 are looked through; WORKINGS_READ_MIB=" in text
    assert verify(run, level=0).level == -1
    monkeypatch.setenv(MEMORY_VARIABLE, text.partition(f"{MEMORY_VARIABLE}=")[2].split()[0])
    assert verify(run, level=0).level == 0


def test_scoring_that_takes_too_long(run: Path, monkeypatch) -> None:
    """What was scored until then is scored, and the rest is not checked."""
    monkeypatch.setenv(limits.SECONDS_VARIABLE, "0")
    verdict, text = said(run)["recompute.scores"]
    assert (verdict, verify(run).level) == ("not_checked", 1)
    assert "more than 0 s of processor time and 0.02 s for each completion; WORKINGS_VERIFY_SECONDS=" in text

    monkeypatch.setattr(limits.ScoringTime, "reason_over", property(lambda clock: "enough" * bool(clock.completions)))
    verdict, text = said(run)["recompute.scores"]
    assert (verdict, text.endswith("2 completions were scored again, and no more: enough")) == ("not_checked", True)

    completion("1 1/2 = " * 20, 3)(run)
    verdict, text = said(run)["recompute.scores"]
    assert (verdict, "x1" in text, "x2" in text) == ("failed", True, False)


def test_more_folders_and_files_than_are_looked_at(run: Path, monkeypatch) -> None:
    monkeypatch.setattr("workings.evidence.verify.load.MAX_UNITS", 1)
    assert "2 sealed folders, more than 1: verify parts of it" in failures(run)["integrity.readable"]
    monkeypatch.setattr(trees, "MAX_ENTRIES", 10)
    assert "more than 10 files and folders" in failures(run)["integrity.readable"]


# --- archives -----------------------------------------------------------------------------------------------------

def large_form(path: Path, claimed: int = -1, small: int = 0xFFFFFFFF) -> Path:
    """The archive with the end records of one beyond 4 GiB; ``claimed``: a fake about its table of contents; ``small``:
    what the old end record says of it."""
    data = path.read_bytes()
    at = data.rindex(b"PK\x05\x06")
    count, size, offset = struct.unpack_from("<HLL", data, at + 10)
    record = struct.pack("<4sQHHLLQQQQ", b"PK\x06\x06", 44, 45, 45, 0, 0, count, count,
                         size if claimed < 0 else claimed, offset)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, at, 1)
    end = struct.pack("<4s4H2LH", b"PK\x05\x06", 0, 0, 0xFFFF, 0xFFFF, small, 0xFFFFFFFF, 0)
    path.write_bytes(data[:at] + record + locator + end)
    return path


def test_the_form_of_large_archives(run: Path, tmp_path: Path) -> None:
    def packed() -> Path:
        return Path(shutil.make_archive(str(tmp_path / "large"), "zip", run))
    assert verify(large_form(packed())).level == 2
    claims = large_form(packed(), claimed=2**40)
    assert "table of contents claims 1,099,511,627,776 bytes" in failures(claims)["integrity.readable"]
    claims = large_form(packed(), claimed=2**40, small=100)  # a library reads the large form wherever there is one
    assert "table of contents claims 1,099,511,627,776 bytes" in failures(claims)["integrity.readable"]
    beyond = large_form(packed())
    data = bytearray(beyond.read_bytes())
    overwritten(b"PK\x06\x07", 8, struct.pack("<Q", 2**50))(data)
    beyond.write_bytes(data)
    assert "cut off" in failures(beyond)["integrity.readable"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may list and read everything")
def test_folders_and_files_that_may_not_be_read(run: Path) -> None:
    (run / "README.md").chmod(0)
    assert "cannot be read" in failures(run)["integrity.sums"]
    (run / "train").chmod(0)
    assert "cannot be listed" in failures(run)["integrity.readable"]
    (run / "train").chmod(0o700)


# --- doors --------------------------------------------------------------------------------------------------------

IN_A_CHILD = ("code as scorer", "template injection", "a regex bomb in a completion")
"""Attacks that are tried here with bounded time and memory; `proof/verify_matrix.py` tries all so."""


@pytest.mark.parametrize("name", DOORS)
def test_a_door(run: Path, tmp_path: Path, run_python, name: str) -> None:
    """Nothing runs, nothing is written outside, no traceback."""
    attack, expected = DOORS[name]
    check, _, words = expected.partition(": ")
    canary = tmp_path / "canary"
    before = {path for path in tmp_path.rglob("*") if "runs" not in path.parts}
    record = attack(run, canary)
    if name in IN_A_CHILD:
        done = run_python("-c", VERIFY.format(memory=MEBIBYTES, seconds=SECONDS), record, cwd=run.parent)
        ids, peak = json.loads(done.stdout.splitlines()[-1])
        assert peak < MEBIBYTES << 10
        failed = dict.fromkeys(ids, words)
    else:
        failed = all_failures(record)
    assert words in failed[check] if check else "integrity.sums" not in failed
    assert not os.path.lexists(canary)
    assert {path for path in tmp_path.rglob("*") if "runs" not in path.parts} == before


# --- limits -------------------------------------------------------------------------------------------------------

def test_values_that_cost_more_than_they_weigh(run: Path, monkeypatch) -> None:
    monkeypatch.setenv(MEMORY_VARIABLE, "1")
    (run / "config/many.json").write_bytes(b"[" + b"[]," * 10_000 + b"1]")
    reseal.reseal(run)
    assert f"would take 1 MiB in memory, 1 are allowed; {MEMORY_VARIABLE}=3 allows more" in failures(run)["form.json"]
    monkeypatch.setenv(MEMORY_VARIABLE, "3")
    assert not failures(run)


def test_files_are_dropped_where_all_would_take_too_much(run: Path, monkeypatch) -> None:
    for number in range(9):
        (run / f"config/many_{number}.json").write_bytes(b"[" + b"[]," * 5_000 + b"1]")
    reseal.reseal(run)
    monkeypatch.setenv(MEMORY_VARIABLE, "2")
    assert not failures(run)
    monkeypatch.setattr("workings.evidence.verify.limits.MAX_TOTAL_FACTOR", 2)
    assert "all that is read of this record would take more than 4 MiB" in failures(run)["form.json"]


# --- values of the wrong kind -------------------------------------------------------------------------------------

@pytest.mark.parametrize("name", [
    "run_manifest.json", "config/resolved.json", "train/metrics.jsonl", "train/events.jsonl", "data/rows.jsonl",
    "eval/test/eval_summary.json", "eval/test/eval_config.json", "eval/test/predictions.jsonl"])
def test_a_value_of_the_wrong_kind_fails_a_check_and_never_the_checker(record_of: RecordOf, name: str) -> None:
    """Some of all places x values, the same ones each time."""
    files, _ = record_of("small")
    cases = hostile_values(files, f"tiny/{name}")
    cases = cases[3::max(1, len(cases) // len(HOSTILE))]
    assert len(cases) >= 10
    for place, hostile in cases:
        assert walk.verified(with_value(files, f"tiny/{name}", place, hostile), 1).checks, (place, hostile)


@pytest.mark.parametrize("root", [[], {"a": 1}, None, 4])
def test_a_root_that_is_no_text_is_not_that_of_the_sums(run: Path, root: object) -> None:
    reseal.edit_json(run / "SEAL.json", lambda seal: seal | {"root": root})
    assert "integrity.sealed" in failures(run)
